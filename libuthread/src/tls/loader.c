/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.c - dlopen() and dlclose(): a new module's static TLS is brought to
 * every block, and stacks become executable if it asks for that.
 */
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
		if (snprintf(path, PATH_MAX, "%s%.*s/%s",
			     rest == p ? "" : origin, (int)(end - rest), rest,
			     file) < PATH_MAX &&
		    !access(path, F_OK))
			return true;
	}
	return false;
}

static void libraries_changed(void)
{
	tls_hooks.libraries_changed();
	tls_refresh();
}

EXPORT void *dlopen(const char *file, int mode)
{
	static void *(*next)(const char *, int);
	char path[PATH_MAX];
	void *handle = NULL;

	if (!next)
		NEXT(next, "dlopen");
	if (file && *file && !strchr(file, '/') && !getenv("LD_LIBRARY_PATH") &&
	    find_in_runpath(file, __builtin_return_address(0), path))
		handle = next(path, mode);
	if (!handle)
		handle = next(file, mode);
	if (handle)
		stack_exec_follow();
	if (handle && load_acquire(&rt.started))
		libraries_changed();
	return handle;
}

EXPORT int dlclose(void *handle)
{
	static int (*next)(void *);
	int r;

	if (!next)
		NEXT(next, "dlclose");
	r = next(handle);
	if (!r && load_acquire(&rt.started))
		libraries_changed();
	return r;
}
