/* SPDX-License-Identifier: BSD-3-Clause */
/* Quotas, for pmemfs quota: everybody may see what is his, root sees all and sets. */
#include <errno.h>
#include <string.h>

#include "control.h"
#include "control_serve.h"
#include "ops_impl.h"

static bool is_root(fuse_req_t req)
{
	return fuse_req_ctx(req)->uid == 0;
}

/* Does it concern the caller? */
static bool may_see(fuse_req_t req, const struct pmemfs_quota *q)
{
	if (q->kind == PMEMFS_QUOTA_USER)
		return is_root(req) || fuse_req_ctx(req)->uid == q->id;
	return !is_outsider(req, q->id);
}

static void add(struct control_quotas *s, const struct pmemfs_quota *q)
{
	s->v[s->n++] = (struct control_quota){
	    .kind = q->kind,
	    .id = q->id,
	    .blocks = q->blocks,
	    .block_limit = q->block_limit,
	    .inodes = q->inodes,
	    .inode_limit = q->inode_limit,
	};
}

/* Looks through all of them: a reply is full, or the last one. */
static int list(fuse_req_t req, struct control_quotas *s)
{
	struct pmemfs_quota q[CONTROL_QUOTAS];
	ssize_t n = CONTROL_QUOTAS, k;

	s->n = s->more = 0;
	while (n == CONTROL_QUOTAS) {
		n = pmemfs_quota_list(fs_of(req), s->kind, s->from, q, CONTROL_QUOTAS);
		if (n < 0)
			return (int)n;
		for (k = 0; k < n; k++) {
			if (!may_see(req, &q[k]))
				continue;
			if (s->n == CONTROL_QUOTAS) {
				s->more = 1;
				return 0;
			}
			add(s, &q[k]);
		}
		if (n && q[n - 1].id == UINT32_MAX)
			return 0;
		if (n)
			s->from = q[n - 1].id + 1;
	}
	return 0;
}

static void reply_list(fuse_req_t req, const void *in, size_t in_size, size_t out_size)
{
	struct control_quotas s;
	int r = -EINVAL;

	if (in_size >= sizeof(s) && out_size >= sizeof(s)) {
		memcpy(&s, in, sizeof(s));
		r = list(req, &s);
	}
	if (r)
		reply_result(req, r);
	else
		fuse_reply_ioctl(req, 0, &s, sizeof(s));
}

static int set(fuse_req_t req, const void *in, size_t in_size)
{
	struct control_quota_set s;
	struct pmemfs_quota q;

	if (in_size < sizeof(s))
		return -EINVAL;
	memcpy(&s, in, sizeof(s));
	q = (struct pmemfs_quota){
	    .kind = s.quota.kind,
	    .id = s.quota.id,
	    .block_limit = s.quota.block_limit,
	    .inode_limit = s.quota.inode_limit,
	};
	return pmemfs_quota_set(fs_of(req), &q, s.mask);
}

static int switch_to(fuse_req_t req, const void *in, size_t in_size)
{
	uint32_t on;

	if (in_size < sizeof(on))
		return -EINVAL;
	memcpy(&on, in, sizeof(on));
	return on ? pmemfs_quota_on(fs_of(req)) : pmemfs_quota_off(fs_of(req));
}

bool control_quota(fuse_req_t req, unsigned cmd, const void *in, size_t in_size,
		   size_t out_size)
{
	int r = -EPERM;

	switch (cmd) {
	case PMEMFS_IOC_QUOTAS:
		reply_list(req, in, in_size, out_size);
		return true;
	case PMEMFS_IOC_QUOTA_SET:
	case PMEMFS_IOC_QUOTA_SWITCH:
		if (is_root(req))
			r = cmd == PMEMFS_IOC_QUOTA_SET ? set(req, in, in_size)
							: switch_to(req, in, in_size);
		if (r)
			reply_result(req, r);
		else
			fuse_reply_ioctl(req, 0, NULL, 0);
		return true;
	default:
		return false;
	}
}
