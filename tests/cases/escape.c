/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tries to get out of the daemon's sandbox (fs/sandbox.c, linked as it is): each attempt in a
 * process of its own that enters it first.
 *
 *	escape attempts	what an intruder would do: all must die, or fail as expected
 *	escape list	all system calls that do not kill whatever their arguments, by name
 *	escape list-uring	the same with -o transport=uring
 *	escape rings	what must fail through io_uring, with rings made as libfuse makes them;
 *			exits with 77 where there is no io_uring
 *	escape old-kernel COMMAND...	runs it where the kernel knows no seccomp filters
 *	escape work	what the daemon has to be able to do
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PMEMFS_RINGS
#include <liburing.h>
#endif

#include "sandbox.h"

#define KILLED	   (-1)
#define LAST_TRIED 600
#define X32	   0x40000000
#define P(pointer) ((long)(intptr_t)(pointer))
#define FD	   100 /* a file that is open, for writing */
#define DIRFD	   101 /* a directory */
#define ANON	   (MAP_PRIVATE | MAP_ANONYMOUS)

static char page[4096] __attribute__((aligned(4096)));
static char *const args[] = {"true", NULL};
static const char passwd[] = "/etc/passwd";

struct attempt {
	const char *name;
	int want; /* KILLED or an errno */
	long call, arg[6];
};

static const struct attempt attempts[] = {
    /* files */
    {"open a file", EACCES, SYS_open, {P(passwd), O_RDONLY}},
    {"open a file at a directory", EACCES, SYS_openat, {DIRFD, P("passwd"), O_RDONLY}},
    {"make a file", EACCES, SYS_openat, {AT_FDCWD, P("escaped"), O_CREAT | O_RDWR, 0600}},
    {"openat2", KILLED, SYS_openat2, {DIRFD, P("passwd"), P(page), 24}},
    {"creat", KILLED, SYS_creat, {P("escaped"), 0600}},
    {"open by handle", KILLED, SYS_open_by_handle_at, {DIRFD, P(page), O_RDONLY}},
    {"memory as a file", KILLED, SYS_memfd_create, {P("escaped"), 0}},
    {"list a directory", KILLED, SYS_getdents64, {DIRFD, P(page), sizeof(page)}},
    {"stat", KILLED, SYS_stat, {P(passwd), P(page)}},
    {"read a link", KILLED, SYS_readlink, {P("/proc/self/exe"), P(page), sizeof(page)}},
    {"remove", KILLED, SYS_unlink, {P("escaped")}},
    {"rename", KILLED, SYS_rename, {P("escaped"), P("free")}},
    {"change a mode", KILLED, SYS_chmod, {P("escaped"), 06777}},
    {"change the mode of an open file", KILLED, SYS_fchmod, {FD, 06777}},
    {"change an owner", KILLED, SYS_chown, {P("escaped"), 0, 0}},
    {"truncate an open file", KILLED, SYS_ftruncate, {FD, 0}},
    {"make a link", KILLED, SYS_link, {P(passwd), P("escaped")}},
    {"make a symbolic link", KILLED, SYS_symlink, {P(passwd), P("escaped")}},
    {"make a device", KILLED, SYS_mknod, {P("escaped"), 020666, 259}},
    {"leave the directory", KILLED, SYS_chdir, {P("/etc")}},
    {"control an open file", KILLED, SYS_ioctl, {FD, TIOCSTI, P(page)}},
    {"own the signals of a file", KILLED, SYS_fcntl, {FD, F_SETOWN, 1}},
    {"duplicate above a limit", KILLED, SYS_fcntl, {FD, F_DUPFD, 200}},

    /* the network and other processes' sockets */
    {"socket", KILLED, SYS_socket, {AF_INET, SOCK_STREAM, 0}},
    {"socket of this machine", KILLED, SYS_socket, {AF_UNIX, SOCK_DGRAM, 0}},
    {"packet socket", KILLED, SYS_socket, {AF_PACKET, SOCK_RAW, 0}},
    {"pair of sockets", KILLED, SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, P(page)}},
    {"connect", KILLED, SYS_connect, {FD, P(page), 16}},
    {"bind", KILLED, SYS_bind, {FD, P(page), 16}},
    {"pass a descriptor", KILLED, SYS_sendmsg, {FD, P(page), 0}},
    {"receive a descriptor", KILLED, SYS_recvmsg, {FD, P(page), 0}},
    {"take a descriptor of another", KILLED, SYS_pidfd_getfd, {FD, 0, 0}},

    /* programs and code */
    {"exec", KILLED, SYS_execve, {P("/bin/true"), P(args), P(args + 1)}},
    {"exec at a directory", KILLED, SYS_execveat, {DIRFD, P("true"), P(args), P(args + 1), 0}},
    {"fork", KILLED, SYS_fork},
    {"vfork", KILLED, SYS_vfork},
    {"clone a process", KILLED, SYS_clone, {SIGCHLD}},
    {"clone into new namespaces", KILLED, SYS_clone, {CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD}},
    {"clone3", ENOSYS, SYS_clone3, {P(page), 64}},
    {"map code", KILLED, SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC, ANON, -1, 0}},
    {"map writable code", KILLED, SYS_mmap, {0, 4096, 7, ANON, -1, 0}},
    {"map a file", KILLED, SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE, FD, 0}},
    {"make memory code", KILLED, SYS_mprotect, {P(page), 4096, PROT_READ | PROT_EXEC}},
    {"the same with a key", KILLED, SYS_pkey_mprotect, {P(page), 4096, PROT_EXEC, -1}},
    {"make data code", KILLED, SYS_personality, {0x0400000}},
    {"shared memory", KILLED, SYS_shmget, {0, 4096, 01600}},
    {"local descriptor table", KILLED, SYS_modify_ldt, {0, P(page), 16}},

    /* other processes */
    {"kill the parent", KILLED, SYS_kill, {-2, SIGTERM}},
    {"kill all", KILLED, SYS_kill, {-1, 0}},
    {"signal a thread of another", KILLED, SYS_tgkill, {1, 1, 0}},
    {"signal any thread", KILLED, SYS_tkill, {1, 0}},
    {"queue a signal", KILLED, SYS_rt_sigqueueinfo, {1, 0, P(page)}},
    {"ptrace", KILLED, SYS_ptrace, {PTRACE_SEIZE, 1, 0, 0}},
    {"be traced", KILLED, SYS_ptrace, {PTRACE_TRACEME, 0, 0, 0}},
    {"read another's memory", KILLED, SYS_process_vm_readv, {1, P(page), 1, P(page), 1, 0}},
    {"write another's memory", KILLED, SYS_process_vm_writev, {1, P(page), 1, P(page), 1, 0}},
    {"hold another process", KILLED, SYS_pidfd_open, {1, 0}},
    {"limits of another", KILLED, SYS_prlimit64, {1, RLIMIT_CORE, P(page), 0}},
    {"priority", KILLED, SYS_setpriority, {PRIO_PROCESS, 1, -20}},
    {"real time", KILLED, SYS_sched_setscheduler, {1, SCHED_FIFO, P(page)}},

    /* who it is */
    {"be root", KILLED, SYS_setuid, {0}},
    {"be root in all ways", KILLED, SYS_setresuid, {0, 0, 0}},
    {"be in root's group", KILLED, SYS_setresgid, {0, 0, 0}},
    {"be in all groups", KILLED, SYS_setgroups, {0, P(page)}},
    {"be root for files", KILLED, SYS_setfsuid, {0}},
    {"take capabilities", KILLED, SYS_capset, {P(page), P(page)}},
    {"keep capabilities", KILLED, SYS_prctl, {PR_SET_KEEPCAPS, 1}},
    {"raise capabilities", KILLED, SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21}},
    {"name memory", EINVAL, SYS_prctl, {0x53564d41, 0, P(page), 4096, 0}},
    {"another filter", KILLED, SYS_seccomp, {1, 0, P(page)}},

    /* the machine */
    {"mount", KILLED, SYS_mount, {P("none"), P("/mnt"), P("tmpfs"), 0, 0}},
    {"unmount", KILLED, SYS_umount2, {P("/"), MNT_DETACH}},
    {"open a mount", KILLED, SYS_open_tree, {AT_FDCWD, P("/"), 1}},
    {"move a mount", KILLED, SYS_move_mount, {FD, P(""), FD, P(""), 0}},
    {"make a filesystem", KILLED, SYS_fsopen, {P("tmpfs"), 0}},
    {"another root", KILLED, SYS_chroot, {P("/tmp")}},
    {"turn the root round", KILLED, SYS_pivot_root, {P("/"), P("/")}},
    {"new namespaces", KILLED, SYS_unshare, {CLONE_NEWUSER}},
    {"another's namespace", KILLED, SYS_setns, {FD, 0}},
    {"load a module", KILLED, SYS_init_module, {P(page), 1, P("")}},
    {"load a module from a file", KILLED, SYS_finit_module, {FD, P(""), 0}},
    {"load a kernel", KILLED, SYS_kexec_load, {0, 0, 0, 0}},
    {"reboot", KILLED, SYS_reboot, {0, 0, 0}},
    {"ports", KILLED, SYS_iopl, {3}},
    {"kernel messages", KILLED, SYS_syslog, {3, P(page), sizeof(page)}},
    {"set the clock", KILLED, SYS_clock_settime, {0, P(page)}},
    {"programs of the kernel", KILLED, SYS_bpf, {0, P(page), 16}},
    {"counters", KILLED, SYS_perf_event_open, {P(page), 0, -1, -1, 0}},
    {"faults", KILLED, SYS_userfaultfd, {0}},
    {"keys", KILLED, SYS_keyctl, {0, -4, 0}},
    {"make rings", KILLED, SYS_io_uring_setup, {8, P(page)}},
    {"use rings", KILLED, SYS_io_uring_enter, {FD, 1, 0, 0, 0, 0}},
    {"ask rings", KILLED, SYS_io_uring_register, {-1, 0, 0, 0}},
    {"splice", KILLED, SYS_splice, {FD, 0, FD, 0, 1, 0}},

    /* other doors of the kernel */
    {"x32 read", KILLED, X32 | SYS_read, {FD, P(page), 1}},
    {"x32 exec", KILLED, X32 | 520, {P("/bin/true"), P(args), P(args + 1)}},
    {"a call of next year", ENOSYS, 500, {0}},
};

static void enter(bool uring)
{
	static const int none[] = {-1};
	int r = sandbox_keep_capabilities(none);

	if (r == 0)
		r = sandbox_enter(uring);
	if (r) {
		fprintf(stderr, "escape: cannot enter: %s\n", strerror(-r));
		_exit(127);
	}
}

static _Noreturn void try_call(long call, const long *a)
{
	errno = 0;
	syscall(call, a[0], a[1], a[2], a[3], a[4], a[5]);
	_exit(errno > 126 ? 126 : errno);
}

/* The 32-bit door: no number of a call there means what it means here. */
static _Noreturn void try_int80(void)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); /* getpid */
	_exit(r > 0 ? 0 : 126);
}

/* KILLED, the errno, 0 if it could be done, -2 for another end. */
static int outcome(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -2;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return KILLED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

static int attempt(const struct attempt *a)
{
	pid_t pid = fork();

	if (pid == 0) {
		enter(false);
		try_call(a->call, a->arg);
	}
	return outcome(pid);
}

static bool expect(const char *name, int got, int want)
{
	if (got == want)
		return true;
	printf("%s: %s\n", name,
	       got == 0	       ? "it could be done"
	       : got == KILLED ? "killed"
	       : got == -2     ? "ended otherwise"
			       : strerror(got));
	return false;
}

static int do_attempts(void)
{
	size_t n = sizeof(attempts) / sizeof(attempts[0]), good = 0;
	int got;
	pid_t pid;

	if (dup2(open("escape.file", O_RDWR | O_CREAT, 0600), FD) < 0 ||
	    dup2(open("/etc", O_RDONLY | O_DIRECTORY), DIRFD) < 0)
		return 2;
	for (size_t i = 0; i < n; i++)
		good += expect(attempts[i].name, attempt(&attempts[i]), attempts[i].want);
	pid = fork();
	if (pid == 0) {
		enter(false);
		try_int80();
	}
	got = outcome(pid); /* a kernel without that door ends it otherwise */
	good += expect("32-bit call", got == -2 ? KILLED : got, KILLED);
	printf("%zu of %zu attempts failed\n", good, n + 1);
	return good == n + 1 ? 0 : 1;
}

/* With arguments that no condition of the table is met by. */
static int do_list(bool uring)
{
	static const long arg[6] = {-1, -1, -1, -1, -1, -1};

	for (int call = 0; call <= LAST_TRIED; call++) {
		char *name;
		pid_t pid;

		/* To where nobody came from; and two that Linux lets pass any filter, for they
		 * are breakpoints that it has put into the code itself. */
		if (call == SYS_rt_sigreturn || call == 335 || call == 336)
			continue;
		pid = fork();
		if (pid == 0) {
			enter(uring);
			try_call(call, arg);
		}
		if (outcome(pid) == KILLED)
			continue;
		name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);
		if (name)
			puts(name);
		else
			printf("%d\n", call);
		free(name);
	}
	return 0;
}

/* ---- io_uring ---- */

#ifdef PMEMFS_RINGS
/* The result of the operation that was put into the ring. */
static int through(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int r;

	r = io_uring_submit(ring);
	if (r == 1)
		r = io_uring_wait_cqe(ring, &cqe);
	if (r < 0)
		return r;
	r = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return r;
}

static bool refused(const char *name, int r)
{
	if (r == -EACCES)
		return true;
	printf("%s through a ring: %s\n", name, r < 0 ? strerror(-r) : "it could be done");
	return false;
}

static int try_rings(struct io_uring *ring, int event)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	uint64_t one = 1;
	int good = 0;

	io_uring_prep_openat(sqe, AT_FDCWD, passwd, O_RDONLY, 0);
	good += refused("open a file", through(ring));
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_rw(IORING_OP_SOCKET, sqe, AF_INET, NULL, 0, SOCK_STREAM);
	good += refused("socket", through(ring));
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_unlink(sqe, "escape.file", 0);
	good += refused("remove", through(ring));
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_write(sqe, event, &one, sizeof(one), 0);
	good += refused("write", through(ring));
	if (write(event, &one, sizeof(one)) < 0)
		return 5;
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_poll_add(sqe, event, POLLIN);
	if (through(ring) != POLLIN) {
		puts("a ring that does not work");
		return 5;
	}
	return good == 4 ? 0 : 1;
}

static int do_rings(void)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SQE128};
	int event = eventfd(0, 0), r;
	struct io_uring ring;

	r = io_uring_queue_init_params(8, &ring, &p);
	if (r == -ENOSYS || r == -EPERM)
		return 77;
	if (r < 0 || io_uring_register_files(&ring, &event, 1) < 0)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	if (io_uring_register_eventfd(&ring, event) >= 0) {
		puts("the ring lets its eventfd be registered");
		return 1;
	}
	enter(true);
	return try_rings(&ring, event);
}
#else
static int do_rings(void)
{
	return 77;
}
#endif

/* ---- what has to work ---- */

static volatile sig_atomic_t signalled;

static void on_signal(int sig)
{
	signalled = 1;
}

static void *thread(void *arg)
{
	char *p = malloc(64 << 20);

	if (!p)
		return NULL;
	memset(p, 1, 64 << 20);
	p = realloc(p, 128 << 20);
	free(p);
	return arg;
}

static int do_work(void)
{
	struct sigaction sa = {.sa_handler = on_signal};
	pthread_t t[4];
	void *ret;

	enter(false);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, thread, page) != 0)
			return 3;
	for (int i = 0; i < 4; i++)
		if (pthread_join(t[i], &ret) != 0 || ret != page)
			return 4;
	if (sigaction(SIGUSR1, &sa, NULL) < 0 || pthread_kill(pthread_self(), SIGUSR1) != 0 ||
	    !signalled)
		return 5;
	if (usleep(1000) < 0 || sysconf(_SC_NPROCESSORS_ONLN) < 1)
		return 6;
	return write(STDOUT_FILENO, "it works\n", 9) == 9 ? 0 : 7;
}

/* A kernel without filters, as far as the command can see. */
static int run_on_old_kernel(char **command)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	/* no_new_privs would go on to the command */
	if (!filter || seccomp_attr_set(filter, SCMP_FLTATR_CTL_NNP, 0) < 0 ||
	    seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(seccomp), 0) < 0 ||
	    seccomp_load(filter) < 0)
		return 2;
	execvp(command[0], command);
	return 2;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "attempts") == 0)
		return do_attempts();
	if (strcmp(what, "list") == 0)
		return do_list(false);
	if (strcmp(what, "list-uring") == 0)
		return do_list(true);
	if (strcmp(what, "rings") == 0)
		return do_rings();
	if (strcmp(what, "old-kernel") == 0 && argc > 2)
		return run_on_old_kernel(argv + 2);
	if (strcmp(what, "work") == 0)
		return do_work();
	fputs("usage: escape attempts|list|list-uring|rings|work|old-kernel COMMAND...\n",
	      stderr);
	return 2;
}
