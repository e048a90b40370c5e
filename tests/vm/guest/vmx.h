/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program of the guest's tests: a static binary with a load that the reference model
 * (tests/ model) makes and judges, and the few system calls that no command makes.
 */
#ifndef PMEMFS_TESTS_VMX_H
#define PMEMFS_TESTS_VMX_H

#include <stdbool.h>

/* ---- serial.c: the second serial line, without the buffers of a driver ---------------------
 */

/* For this process and its children. Needs root. 0 or -1 and errno. */
int serial_open(void);
/* Returns when the machine's port has taken every byte: then it is outside of the machine. */
void serial_say(const char *line);

/* ---- the subcommands: argv[0] is their name; exit codes ------------------------------------
 */

int load_main(int argc, char **argv);	/* load.c: load, and cut: the same, acknowledged */
int verify_main(int argc, char **argv); /* load.c */
int bench_main(int argc, char **argv);	/* bench.c */
int map_main(int argc, char **argv);	/* media.c: and what else is done to a device */
int poison_main(int argc, char **argv);
int mapsync_main(int argc, char **argv);
int locate_main(int argc, char **argv);
int readx_main(int argc, char **argv);

#endif
