/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_dlopen.c - libraries with thread-local variables of different sizes
 * that come and go all the time, so that the loader's numbers for them go
 * around. In every uthread a variable is either as new or what this uthread
 * left there, never another's. The gate (util.h) keeps glibc's own race out;
 * uthreads are stopped and moved on both of its sides.
 *
 * Beside that, without a gate: libraries without such variables, whose calls
 * are bound one by one (a thousand lookups each time), and others that come and
 * go in the list that these lookups walk.
 */
#include "soak.h"

#include <dlfcn.h>
#include <link.h>

#define MODULES 5

static const unsigned sizes[MODULES] = { 8, 500, 3000, 70000, 260000 };

struct mine {
	unsigned tag;
	int filled;
};

static struct gate gate = GATE_INITIALIZER;

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	CHECK(size >= sizeof(*info));
	CHECK(info->dlpi_phnum > 0);
	++*(int *)arg;
	return 0;
}

static void use(struct soak *s, void *handle, unsigned which)
{
	unsigned *(*tag)(void);
	const char *(*name)(void);
	int (*fill)(unsigned char), was;
	unsigned (*bytes)(void);
	unsigned *at;
	Dl_info info;

	gate_enter(&gate);
	*(void **)&tag = dlsym(handle, "module_tag");
	*(void **)&name = dlsym(handle, "module_name");
	*(void **)&fill = dlsym(handle, "module_fill");
	*(void **)&bytes = dlsym(handle, "module_bytes");
	CHECK(tag && name && fill && bytes);
	CHECK_EQ(bytes(), sizes[which]);
	CHECK(dladdr(*(void **)&tag, &info));
	CHECK(strstr(info.dli_fname, "soak_module"));
	CHECK(!strcmp(name(), "module"));
	at = tag();
	if (*at != 0 && *at != s->tag)
		fprintf(stderr, "tag %x in uthread %x\n", *at, s->tag);
	CHECK(*at == 0 || *at == s->tag);
	/* Between fresh and used there is nothing. */
	was = fill(*at ? (unsigned char)(s->tag >> 16) : 0);
	if (!*at) {
		CHECK_EQ(was, 0);
		CHECK_EQ(fill((unsigned char)(s->tag >> 16)), 0);
	} else {
		CHECK_EQ(was, (unsigned char)(s->tag >> 16));
	}
	*at = s->tag;
	uthread_yield();
	CHECK(tag() == at);
	CHECK_EQ(*at, s->tag);
	CHECK_EQ(fill((unsigned char)(s->tag >> 16)),
		 (unsigned char)(s->tag >> 16));
	gate_leave(&gate);
}

static void *opened(const char *kind, unsigned which, int how)
{
	char name[32];
	void *handle;

	snprintf(name, sizeof(name), "soak_%s%u.so", kind, which);
	handle = dlopen(name, how);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
	return handle;
}

static void bind_lazily(struct soak *s)
{
	void *handle, *filler;
	int (*all)(void);

	filler = opened("filler", soak_random(s, 4), RTLD_NOW | RTLD_GLOBAL);
	handle = opened("lazy", soak_random(s, 4), RTLD_LAZY);
	CHECK(!dlclose(filler));
	*(void **)&all = dlsym(handle, "lazy_all");
	CHECK(all);
	CHECK_EQ(all(), 1000);
	CHECK(!dlclose(handle));
}

static void round_of_dlopen(struct soak *s)
{
	unsigned which = soak_random(s, MODULES);
	char name[32];
	void *handle, *again;
	int n = 0;

	if (soak_random(s, 4) == 0) {
		bind_lazily(s);
		return;
	}
	snprintf(name, sizeof(name), "soak_module%u.so", which);
	gate_enter_alone(&gate);
	handle = dlopen(name, soak_random(s, 2) ? RTLD_NOW : RTLD_LAZY);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
	gate_leave(&gate);
	use(s, handle, which);
	if (soak_random(s, 4) == 0) {
		gate_enter_alone(&gate);
		again = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
		CHECK(again == handle);
		CHECK(!dlclose(again));
		gate_leave(&gate);
		use(s, handle, which);
	}
	if (soak_random(s, 8) == 0) {
		CHECK(!dl_iterate_phdr(look, &n));
		CHECK(n > 2);
	}
	gate_enter_alone(&gate);
	CHECK(!dlclose(handle));
	gate_leave(&gate);
}

STORM(dlopen, .uthreads = 60, .rounds = 8, .round = round_of_dlopen)
