/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A byte that the kernel's serial driver has accepted may still be in its buffer when the power
 * goes. So the second port is driven here, by polling: its data register takes one byte at a
 * time, and what it took QEMU has written to the host's file.
 */
#include <string.h>
#include <sys/io.h>

#include "vmx.h"

#define PORT	    0x2f8 /* ttyS1 */
#define LINE_STATUS (PORT + 5)
#define EMPTY	    0x20 /* the data register */

int serial_open(void)
{
	return ioperm(PORT, 8, 1);
}

void serial_say(const char *line)
{
	for (; *line; line++) {
		while (!(inb(LINE_STATUS) & EMPTY))
			;
		outb((unsigned char)*line, PORT);
	}
}
