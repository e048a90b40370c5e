/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * -o writeback: the kernel keeps what is written to files in its page cache and hands it over
 * later, so that a return of write(2) promises nothing. Then sizes and times of files are the
 * kernel's, which sends them when it hands over; the handlers obey as they obey utimensat(2).
 * close(2), fsync(2) and sync(2) hand over first.
 *
 * Where data is in a file the kernel asks the daemon, without handing over what the daemon has
 * not seen: a copy of an open file would lose it. So that it does not ask, lseek has no
 * handler; to the kernel a file is then all data.
 */
#include "writeback.h"

#include <stddef.h>

static void (*next)(void *userdata, struct fuse_conn_info *conn);

static void init(void *userdata, struct fuse_conn_info *conn)
{
	next(userdata, conn);
#ifdef PMEMFS_FUSE_FEATURE_FLAG
	fuse_set_feature_flag(conn, FUSE_CAP_WRITEBACK_CACHE);
#else
	conn->want |= conn->capable & FUSE_CAP_WRITEBACK_CACHE;
#endif
}

void writeback_add(struct fuse_lowlevel_ops *handlers)
{
	next = handlers->init;
	handlers->init = init;
	handlers->lseek = NULL;
}
