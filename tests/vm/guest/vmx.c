/* SPDX-License-Identifier: BSD-3-Clause */
#include "vmx.h"

#include <stdio.h>
#include <string.h>

static const struct command {
	const char *name, *arguments;
	int (*main)(int argc, char **argv);
} commands[] = {
    {"load", "DIR SEED N", load_main},
    {"cut", "DIR SEED WRITERS [N]", load_main},
    {"verify", "DIR SEED LAST [whole]", verify_main},
    {"bench", "DIR FILES", bench_main},
    {"map", "DEVICE SECONDS", map_main},
    {"poison", "DEVICE OFFSET LENGTH", poison_main},
    {"mapsync", "FILE", mapsync_main},
    {"locate", "MEDIUM SIZE FILE OFFSET", locate_main},
    {"readx", "FILE CHUNK [SECONDS]", readx_main},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

int main(int argc, char **argv)
{
	int code = 2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc > 1 && i < COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			code = commands[i].main(argc - 1, argv + 1);
	for (size_t i = 0; code == 2 && i < COMMANDS; i++)
		fprintf(stderr, "usage: vmx %s %s\n", commands[i].name, commands[i].arguments);
	return code;
}
