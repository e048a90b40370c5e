/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model. A line of 64 bytes arrives at the DIMM when it is stored non-temporally or written
 * back. There it waits in a buffer of 64 lines of 256 bytes, until it is complete or its place
 * is needed; an incomplete one costs a read. Whoever needs a place waits for the medium. A line
 * that comes again while its first coming is still on the way waits too.
 *
 * The numbers. From the public table of dm-writecache on Optane (one thread, MB/s by block:
 * movnti 496 642 725 744, cached stores and clflushopt 373 688 1100 1200 for 512 1024 2048 4096
 * bytes), by fitting time = fixed + lines x each: 400 ns + 80 ns a line, and 950 ns + 40 ns a
 * line, of which 300 ns are taken for the block layer. The 40 ns are also the 1.6 GB/s that
 * were measured of cached stores alone. Buffer, line and the 2.3 GB/s that a DIMM writes are
 * the published ones; reading is three times as fast. That a line flushed again at once takes
 * 900 ns is from measurements of log tails. NOVA's file throughput was not used: the model has
 * to come out with it.
 */
#include "optane.h"

#include <string.h>

#include "util.h"

const struct optane_params optane_published = {
    .nt_line = 80,
    .cached_line = 40,
    .nt_fence = 100,
    .cached_fence = 650,
    .software = 300,
    .media_write = 111,
    .media_read = 37,
    .rewrite = 900,
};

void optane_init(struct optane *o, const struct optane_params *params)
{
	memset(o, 0, sizeof(*o));
	o->params = *params;
}

/* The medium gets a line from the buffer. */
static void write_out(struct optane *o, unsigned i, double now)
{
	double cost = o->params.media_write;

	o->media_writes++;
	if (o->buffer[i].parts != 15) {
		o->media_reads++;
		cost += o->params.media_read;
	}
	o->media_free = MAX(o->media_free, now) + cost;
	o->buffer[i].parts = 0;
}

/* The buffer's place for a line of the medium, made free if need be. */
static unsigned find_place(struct optane *o, uint64_t line)
{
	unsigned oldest = 0;

	for (unsigned i = 0; i < OPTANE_BUFFER; i++)
		if (o->buffer[i].parts && o->buffer[i].line == line)
			return i;
	for (unsigned i = 0; i < OPTANE_BUFFER; i++) {
		if (!o->buffer[i].parts)
			return i;
		if (o->buffer[i].used < o->buffer[oldest].used)
			oldest = i;
	}
	o->w[o->writer].now = MAX(o->w[o->writer].now, o->media_free);
	write_out(o, oldest, o->w[o->writer].now);
	return oldest;
}

/* A line of 64 bytes, its number. */
static void arrive(struct optane *o, uint64_t line)
{
	unsigned recent = line % ARRAY_LEN(o->recent), i;
	double *now = &o->w[o->writer].now;

	o->lines++;
	if (o->recent[recent].line == line + 1 &&
	    o->recent[recent].when + o->params.rewrite > *now) {
		o->rewrites++;
		*now = o->recent[recent].when + o->params.rewrite;
	}
	i = find_place(o, line / 4);
	o->buffer[i].line = line / 4;
	o->buffer[i].parts |= 1u << line % 4;
	o->buffer[i].used = ++o->uses;
	o->recent[recent].line = line + 1;
	o->recent[recent].when = *now;
}

static void arrive_all(struct optane *o, uint64_t off, size_t len, double each)
{
	for (uint64_t line = off / 64; line <= (off + len - 1) / 64; line++) {
		o->w[o->writer].now += each;
		arrive(o, line);
	}
}

static void fence(struct optane *o)
{
	const struct optane_params *p = &o->params;
	unsigned i = o->writer;

	o->fences++;
	o->w[i].now += p->software;
	if (o->w[i].cached)
		o->w[i].now += p->cached_fence;
	else if (o->w[i].nt)
		o->w[i].now += p->nt_fence;
	o->w[i].nt = o->w[i].cached = false;
}

void optane_hook(void *arg, enum media_event ev, uint64_t off, const void *bytes, size_t len)
{
	struct optane *o = arg;

	switch (ev) {
	case MEDIA_EV_STORE8:
	case MEDIA_EV_STORE:
		o->bytes += len; /* the flush brings it */
		break;
	case MEDIA_EV_NT:
		o->bytes += len;
		o->w[o->writer].nt = true;
		arrive_all(o, off, len, o->params.nt_line);
		break;
	case MEDIA_EV_FLUSH:
		o->w[o->writer].cached = true;
		arrive_all(o, off, len, o->params.cached_line);
		break;
	case MEDIA_EV_FENCE:
		fence(o);
		break;
	}
}

void optane_drain(struct optane *o)
{
	for (unsigned i = 0; i < OPTANE_BUFFER; i++)
		if (o->buffer[i].parts)
			write_out(o, i, o->media_free);
}

double optane_ns(const struct optane *o)
{
	double ns = 0;

	for (unsigned i = 0; i < OPTANE_WRITERS; i++)
		ns = MAX(ns, o->w[i].now);
	return ns;
}

double optane_amplification(const struct optane *o)
{
	return o->bytes ? (double)(o->media_writes * OPTANE_LINE) / (double)o->bytes : 0;
}
