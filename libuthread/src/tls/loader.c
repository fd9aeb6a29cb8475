/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.c - dlopen() and dlclose(): while they run glibc knows of all blocks
 * (listed.c), and afterwards we know of all libraries (modules.c), and stacks
 * are executable if one asks for that.
 *
 * No lock of ours is held meanwhile: a library's constructors and destructors
 * may do anything, open and close others included.
 */
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/interpose.h"
#include "stack/stack.h"
#include "tls/tls.h"

/*
 * The loader searches the RUNPATH of the object that calls dlopen(), and it
 * would take us for that object. So look there for the caller first.
 */
static bool find_in_runpath(const char *file, const void *caller,
			    char path[PATH_MAX])
{
	const char *strtab = NULL, *run = NULL, *p, *end, *rest;
	char origin[PATH_MAX];
	ElfW(Xword) runpath = 0;
	struct link_map *lm;
	const ElfW(Dyn) *d;
	ssize_t n;
	Dl_info info;

	if (!file || !*file || strchr(file, '/') || getenv("LD_LIBRARY_PATH"))
		return false;
	if (!dladdr1(caller, &info, (void **)&lm, RTLD_DL_LINKMAP) || !lm->l_ld)
		return false;
	for (d = lm->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			strtab = (const char *)d->d_un.d_ptr;
		else if (d->d_tag == DT_RUNPATH ||
			 (d->d_tag == DT_RPATH && !runpath))
			runpath = d->d_un.d_val;
	}
	if (!strtab || !runpath)
		return false;
	if (*lm->l_name) {
		if (!realpath(lm->l_name, origin))
			return false;
	} else {
		n = readlink("/proc/self/exe", origin, sizeof(origin) - 1);
		if (n < 0)
			return false;
		origin[n] = 0;
	}
	*strrchr(origin, '/') = 0;
	run = strtab + runpath;
	for (p = run; *p; p = *end ? end + 1 : end) {
		end = strchrnul(p, ':');
		rest = p;
		if (!strncmp(p, "$ORIGIN", 7))
			rest = p + 7;
		else if (!strncmp(p, "${ORIGIN}", 9))
			rest = p + 9;
		/* Whoever makes a link to a program with others' rights says
		 * where that is: the loader does not look there either. */
		if (getauxval(AT_SECURE) && *p != '/')
			continue;
		if (snprintf(path, PATH_MAX, "%s%.*s/%s",
			     rest == p ? "" : origin, (int)(end - rest), rest,
			     file) < PATH_MAX &&
		    !access(path, F_OK))
			return true;
	}
	return false;
}

struct change {
	bool started; /* there may be blocks */
	bool may_close;
	struct uthread *held;
	int32_t bound; /* it was, to that worker */
	struct tls_change tls;
};

/*
 * With shared TLS the loader takes whoever runs on this worker for the owner of
 * its lock: nobody else may, until constructors and destructors are through. If
 * one of those waits, it goes on here: only its owner can give the lock back.
 */
static void begin(struct change *c)
{
	struct uthread *me = uthread_current();

	*c = (struct change){ .may_close = true };
	if (!load_acquire(&rt.started))
		return;
	c->started = true;
	if (me && !uthread_on_own_tls(me)) {
		c->held = me;
		store_relaxed(&me->preempt_off, me->preempt_off + 1);
		barrier();
		c->bound = me->bound;
		store_relaxed(&me->bound, me->worker->index);
	}
	c->may_close = tls_change_begin(&c->tls);
}

static void end(const struct change *c)
{
	if (c->started)
		tls_change_end(&c->tls);
	if (c->held) {
		store_relaxed(&c->held->bound, c->bound);
		barrier();
		store_relaxed(&c->held->preempt_off, c->held->preempt_off - 1);
	}
}

EXPORT void *dlopen(const char *file, int mode)
{
	static void *(*next)(const char *, int);
	char path[PATH_MAX];
	void *handle = NULL;
	struct change c;

	if (!next)
		NEXT(next, "dlopen");
	begin(&c);
	if (find_in_runpath(file, __builtin_return_address(0), path))
		handle = next(path, mode);
	if (!handle)
		handle = next(file, mode);
	if (handle)
		stack_exec_follow();
	end(&c);
	return handle;
}

EXPORT void *dlmopen(Lmid_t space, const char *file, int mode)
{
	static void *(*next)(Lmid_t, const char *, int);
	char path[PATH_MAX];
	void *handle = NULL;
	struct change c;

	if (!next)
		NEXT(next, "dlmopen");
	begin(&c);
	if (find_in_runpath(file, __builtin_return_address(0), path))
		handle = next(space, path, mode);
	if (!handle)
		handle = next(space, file, mode);
	if (handle)
		stack_exec_follow();
	end(&c);
	return handle;
}

EXPORT int dlclose(void *handle)
{
	static int (*next)(void *);
	static bool said;
	struct change c;
	int r;

	if (!next)
		NEXT(next, "dlclose");
	begin(&c);
	if (unlikely(!c.may_close) && !said)
		ut_warn("dlclose() keeps libraries: this glibc cannot be told that uthreads may be using them");
	said |= !c.may_close;
	r = c.may_close ? next(handle) : 0;
	end(&c);
	return r;
}
