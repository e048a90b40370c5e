/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that answer requests, in one of two ways.
 *
 * Blocking: all of them read the descriptor and sleep there, as libfuse's do.
 *
 * Polling: one of them has the seat. It reads a request, gives up the seat, answers, and comes
 * back; and before it sleeps it looks for requests for a while, since going to sleep and being
 * woken is most of what a short request costs. The others sleep on a stack, the one that worked
 * last on top. Nobody is woken for a request that is short: waking costs more than it takes,
 * and its thread is back soon. Requests that may take long, or that arrive while such a one is
 * being served (whose locks they may have to wait for), pass the seat on before they are
 * answered.
 *
 * Polling has to earn its time: when requests do not come while it looks, when they are always
 * there already, so that several threads would serve them better, or when others want the
 * processor, the threads block again, and it is tried anew after a while, each time a
 * longer one. It takes a second processor.
 *
 * 1. The descriptor is non-blocking exactly while threads poll. A thread that is still blocked
 *    when that begins is interrupted by a signal.
 * 2. The buffer lies so that the data of a write begins at a page.
 *
 * Lock: `lock` guards the seat, the stack and the threads. What is said to be the seat's needs
 * none. In the seat sleeping is poll(2), which also hears of `stop_fd`.
 */
#include "transport.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stats.h"

#define PAGE	     4096
#define WRITE_HEADER (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))
#define LONG_SIZE    65536 /* bytes from which reading and writing take long */
#define WAKE_SIGNAL  SIGUSR1
/* In polling: requests that come in time add one, others take off more; it ends at nothing. */
#define CREDIT_START 8
#define CREDIT_MAX   32
#define CREDIT_MISS  4
/* Between two looks; more than that: somebody else had the processor. */
#define LOST_NS 50000
/* Until it is tried again. */
#define REST_MIN_NS 10000000ull
#define REST_MAX_NS 200000000ull

struct worker {
	struct transport *t;
	struct worker *below; /* on the stack */
	sem_t wake;
	pthread_t thread;
	atomic_bool blocked; /* or about to be */
	char *map;	     /* the buffer's pages */
	struct fuse_buf buf;
	struct stats stats;
};

struct transport {
	struct transport_options o;
	struct fuse_session *session;
	int fd, stop_fd, result;
	size_t buf_size, map_size;
	atomic_bool stopped;
	atomic_bool polling;
	atomic_int nblocked;
	atomic_uint nlong; /* long requests being served */
	pthread_mutex_t lock;
	bool seat_taken;
	struct worker *idle;	 /* the stack */
	struct worker **workers; /* room for all from the beginning */
	atomic_uint nworkers;
	_Atomic uint64_t try_at; /* when to poll again */
	/* the seat's */
	uint64_t began, rest; /* polling; how long it rests next time */
	int credit;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* ---- the seat ---- */

static void *work(void *arg);

static struct worker *worker_new(struct transport *t)
{
	struct worker *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);

	if (!w)
		return NULL;
	memset(w, 0, sizeof(*w));
	w->t = t;
	w->map =
	    mmap(NULL, t->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->map == MAP_FAILED) {
		free(w);
		return NULL;
	}
	w->buf.mem = w->map + PAGE - WRITE_HEADER;
	sem_init(&w->wake, 0, 0);
	return w;
}

static void worker_free(struct worker *w)
{
	sem_destroy(&w->wake);
	munmap(w->map, w->t->map_size);
	free(w);
}

/* One thread more, which goes for the seat. Called with the lock; in silence without memory. */
static void add_worker(struct transport *t)
{
	struct worker *w;

	if (t->nworkers >= t->o.threads || atomic_load(&t->stopped))
		return;
	w = worker_new(t);
	if (!w)
		return;
	if (pthread_create(&w->thread, NULL, work, w) != 0) {
		worker_free(w);
		return;
	}
	t->workers[t->nworkers] = w;
	t->nworkers++;
}

static void set_nonblocking(struct transport *t, bool on)
{
	fcntl(t->fd, F_SETFL, O_RDWR | (on ? O_NONBLOCK : 0));
}

/* Interrupts who sleeps in read(2). With the lock, and the descriptor non-blocking. */
static void wake_blocked(struct transport *t)
{
	for (unsigned i = 0; i < t->nworkers; i++)
		if (atomic_load(&t->workers[i]->blocked))
			pthread_kill(t->workers[i]->thread, WAKE_SIGNAL);
}

static void wake_idle(struct transport *t)
{
	for (; t->idle; t->idle = t->idle->below)
		sem_post(&t->idle->wake);
}

static void stop(struct transport *t)
{
	uint64_t one = 1;

	pthread_mutex_lock(&t->lock);
	atomic_store(&t->stopped, true);
	set_nonblocking(t, true);
	if (write(t->stop_fd, &one, sizeof(one)) < 0) {
		/* full: it has been told already */
	}
	wake_idle(t);
	wake_blocked(t);
	pthread_mutex_unlock(&t->lock);
}

static void begin_polling(struct transport *t, uint64_t now)
{
	pthread_mutex_lock(&t->lock);
	if (!atomic_load(&t->polling)) {
		t->began = now;
		t->credit = CREDIT_START;
		set_nonblocking(t, true);
		atomic_store(&t->polling, true);
		wake_blocked(t);
	}
	pthread_mutex_unlock(&t->lock);
}

/* By the thread in the seat. */
static void end_polling(struct transport *t)
{
	uint64_t now = now_ns();

	t->rest = now - t->began > REST_MAX_NS ? REST_MIN_NS : 2 * t->rest;
	if (t->rest > REST_MAX_NS)
		t->rest = REST_MAX_NS;
	atomic_store(&t->try_at, now + t->rest);
	pthread_mutex_lock(&t->lock);
	if (!atomic_load(&t->stopped)) {
		set_nonblocking(t, false);
		atomic_store(&t->polling, false);
	}
	t->seat_taken = false;
	wake_idle(t);
	pthread_mutex_unlock(&t->lock);
}

/* Waits for the seat. False: nobody polls any more. */
static bool take_seat(struct worker *w)
{
	struct transport *t = w->t;
	bool polling;

	pthread_mutex_lock(&t->lock);
	while ((polling = atomic_load(&t->polling) && !atomic_load(&t->stopped)) &&
	       t->seat_taken) {
		w->below = t->idle;
		t->idle = w;
		pthread_mutex_unlock(&t->lock);
		while (sem_wait(&w->wake) < 0)
			;
		pthread_mutex_lock(&t->lock);
	}
	if (polling)
		t->seat_taken = true;
	pthread_mutex_unlock(&t->lock);
	return polling;
}

static void leave_seat(struct transport *t, bool pass_on)
{
	struct worker *next = NULL;

	pthread_mutex_lock(&t->lock);
	t->seat_taken = false;
	if (pass_on && t->idle) {
		next = t->idle;
		t->idle = next->below;
	} else if (pass_on) {
		add_worker(t);
	}
	pthread_mutex_unlock(&t->lock);
	if (next)
		sem_post(&next->wake);
}

/* ---- receiving ---- */

/* A request's length, 0 if there is none; -1: it is over. */
static ssize_t look(struct worker *w)
{
	struct transport *t = w->t;
	ssize_t n;

	do
		n = read(t->fd, w->buf.mem, t->buf_size);
	while (n < 0 && errno == ENOENT); /* it was taken back */
	if (n >= 0 || errno == EAGAIN || errno == EINTR)
		return n > 0 ? n : 0;
	if (errno != ENODEV)
		t->result = -errno;
	return -1;
}

/* Looks for a while. 0: in vain. */
static ssize_t poll_for(struct worker *w)
{
	struct transport *t = w->t;
	uint64_t start = now_ns(), end = start + t->o.poll_us * 1000ull, last = start, now;
	ssize_t n;

	do {
		__builtin_ia32_pause();
		n = look(w);
		now = now_ns();
		if (n == 0 && now - last > LOST_NS) {
			t->credit = 0;
			return 0;
		}
		last = now;
	} while (n == 0 && now < end);
	if (n > 0)
		t->credit += t->credit < CREDIT_MAX;
	else
		t->credit -= CREDIT_MISS;
	return n;
}

static ssize_t sleep_for(struct worker *w)
{
	struct transport *t = w->t;
	struct pollfd fds[2] = {{.fd = t->fd, .events = POLLIN},
				{.fd = t->stop_fd, .events = POLLIN}};
	ssize_t n = 0;

	while (n == 0 && !atomic_load(&t->stopped)) {
		poll(fds, 2, -1);
		n = look(w);
	}
	return n;
}

/* In the seat. 0: polling is to end. */
static ssize_t receive_polling(struct worker *w)
{
	struct transport *t = w->t;
	ssize_t n = look(w);

	if (n) { /* it was there already: nothing was gained, and several threads may gain */
		t->credit--;
		return n;
	}
	if (t->credit > 0)
		n = poll_for(w);
	if (n) {
		stats_add(&w->stats.polls, 1);
		return n;
	}
	if (t->credit <= 0)
		return 0;
	stats_add(&w->stats.sleeps, 1);
	return sleep_for(w);
}

/* 0: interrupted. The last one to be here makes another, for requests that come meanwhile. */
static ssize_t receive_blocking(struct worker *w)
{
	struct transport *t = w->t;
	ssize_t n;

	atomic_fetch_add(&t->nblocked, 1);
	atomic_store(&w->blocked, true);
	n = look(w);
	atomic_store(&w->blocked, false);
	stats_add(&w->stats.sleeps, n > 0);
	if (atomic_fetch_sub(&t->nblocked, 1) == 1 && n > 0 && t->nworkers < t->o.threads) {
		pthread_mutex_lock(&t->lock);
		add_worker(t);
		pthread_mutex_unlock(&t->lock);
	}
	return n;
}

/* May it keep its thread for long? */
static bool takes_long(const struct transport *t, const struct fuse_in_header *in)
{
	const void *arg = in + 1;

	switch (in->opcode) {
	case FUSE_READ:
	case FUSE_WRITE: /* the size is in the same place */
		return ((const struct fuse_write_in *)arg)->size >= LONG_SIZE ||
		       t->o.slow_medium;
	case FUSE_SETATTR:
		return ((const struct fuse_setattr_in *)arg)->valid & FATTR_SIZE;
	case FUSE_READDIR:
	case FUSE_READDIRPLUS:
	case FUSE_FALLOCATE:
	case FUSE_COPY_FILE_RANGE:
	case FUSE_FSYNC:
	case FUSE_FSYNCDIR:
	case FUSE_IOCTL:
	case FUSE_BATCH_FORGET:
		return true;
	default:
		return t->o.slow_medium;
	}
}

/* ---- serving ---- */

static void serve_request(struct worker *w, bool is_long)
{
	struct transport *t = w->t;
	uint64_t start = now_ns(), end;

	atomic_store_explicit(&w->stats.since, start, memory_order_relaxed);
	fuse_session_process_buf(t->session, &w->buf);
	atomic_store_explicit(&w->stats.since, 0, memory_order_relaxed);
	end = now_ns();
	stats_request(&w->stats, w->buf.mem, end - start);
	if (is_long)
		atomic_fetch_sub(&t->nlong, 1);
	if (!atomic_load_explicit(&t->polling, memory_order_relaxed) &&
	    end >= atomic_load(&t->try_at))
		begin_polling(t, end);
}

/* In the seat, which it leaves. */
static ssize_t receive_in_seat(struct worker *w, bool *ret_long)
{
	struct transport *t = w->t;
	ssize_t n = receive_polling(w);

	if (n == 0) {
		end_polling(t);
		return 0;
	}
	*ret_long = n > 0 && takes_long(t, w->buf.mem);
	if (*ret_long)
		atomic_fetch_add(&t->nlong, 1);
	if (t->credit <= 0)
		end_polling(t);
	else
		leave_seat(t, atomic_load(&t->nlong) > 0);
	return n;
}

static ssize_t receive(struct worker *w, bool *ret_long)
{
	*ret_long = false;
	if (take_seat(w))
		return receive_in_seat(w, ret_long);
	return atomic_load(&w->t->stopped) ? -1 : receive_blocking(w);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct transport *t = w->t;
	bool is_long;
	ssize_t n;

	while ((n = receive(w, &is_long)) >= 0 && !fuse_session_exited(t->session)) {
		if (n == 0)
			continue;
		w->buf.size = n;
		serve_request(w, is_long);
	}
	stop(t);
	return NULL;
}

static void on_wake(int sig)
{
	(void)sig; /* only ends a system call */
}

int transport_run(struct transport *t)
{
	struct sigaction sa = {.sa_handler = on_wake, .sa_flags = SA_RESTART};

	sigaction(WAKE_SIGNAL, &sa, NULL);
	t->workers[0]->thread = pthread_self();
	work(t->workers[0]);
	/* Now that it is stopped there will be no more of them. */
	for (unsigned i = 1; i < t->nworkers; i++)
		pthread_join(t->workers[i]->thread, NULL);
	return t->result;
}

void transport_stop(struct transport *t)
{
	fuse_session_exit(t->session);
	stop(t);
}

/* ---- life ---- */

struct transport *transport_new(struct fuse_session *session, const struct transport_options *o)
{
	struct transport *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->o = *o;
	t->session = session;
	t->fd = fuse_session_fd(session);
	t->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->buf_size = WRITE_HEADER + o->max_write + PAGE;
	t->map_size = (PAGE + o->max_write + 2 * PAGE) / PAGE * PAGE;
	pthread_mutex_init(&t->lock, NULL);
	t->workers = calloc(o->threads, sizeof(struct worker *));
	if (t->workers)
		t->workers[0] = worker_new(t);
	if (t->stop_fd < 0 || !t->workers || !t->workers[0]) {
		transport_free(t);
		return NULL;
	}
	t->nworkers = 1;
	t->rest = REST_MIN_NS / 2;
	if (o->poll_us == 0)
		t->try_at = UINT64_MAX;
	return t;
}

void transport_free(struct transport *t)
{
	if (!t)
		return;
	for (unsigned i = 0; t->workers && i < t->o.threads && t->workers[i]; i++)
		worker_free(t->workers[i]);
	if (t->stop_fd >= 0)
		close(t->stop_fd);
	pthread_mutex_destroy(&t->lock);
	free(t->workers);
	free(t);
}

void transport_stats(struct transport *t, struct control_stats *ret)
{
	uint64_t now = now_ns();

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < t->nworkers; i++)
		stats_sum(&t->workers[i]->stats, now, ret);
	pthread_mutex_unlock(&t->lock);
}
