/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sandbox is to system calls, this is to io_uring: a seccomp filter does not see what
 * is asked for through a ring, which could open files and sockets. libfuse makes its rings by
 * this function of liburing's; the program's own goes before that of the library. The rings
 * made here take what libfuse puts into them and nothing else, for ever: commands for
 * /dev/fuse, and a poll that ends them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int (*make_fn)(unsigned entries, struct io_uring *ring, struct io_uring_params *p);

static struct io_uring_restriction allowed[] = {
    {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_URING_CMD},
    {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_POLL_ADD},
    {.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED, .sqe_flags = IOSQE_FIXED_FILE},
    {.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = IORING_REGISTER_FILES},
};

/* As functions of the library do it, which not every version of it exports. */
static int register_with(struct io_uring *ring, unsigned op, void *arg, unsigned n)
{
	return syscall(SYS_io_uring_register, ring->ring_fd, op, arg, n);
}

static int restrict_ring(struct io_uring *ring)
{
	if (register_with(ring, IORING_REGISTER_RESTRICTIONS, allowed,
			  sizeof(allowed) / sizeof(allowed[0])) < 0 ||
	    register_with(ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
		return -errno;
	return 0;
}

int io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
			       struct io_uring_params *p)
{
	make_fn make = (make_fn)dlsym(RTLD_NEXT, "io_uring_queue_init_params");
	int r;

	if (!make)
		return -ENOSYS;
	p->flags |= IORING_SETUP_R_DISABLED;
	r = make(entries, ring, p);
	if (r < 0)
		return r;
	r = restrict_ring(ring);
	if (r < 0)
		io_uring_queue_exit(ring);
	return r;
}
