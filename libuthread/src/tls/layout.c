/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.c - where this glibc keeps what a block needs (struct tls_layout), and its
 * functions that build one: found by private symbols, then proved on a real pthread.
 * Each check has a reason of its own, which uthread-config shows.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "tls/tls.h"

struct tls_layout tls_layout;
struct tls_libc tls_libc;

/* {bits, elements, offset} of a field. */
bool tls_db_field(const char *name, size_t *off)
{
	const uint32_t *d = tls_symbol(name);

	if (!d)
		return false;
	*off = d[2];
	return true;
}

/* Since 2.35 each thread has an area for rseq, and glibc says where. */
static bool has_rseq(const char *version)
{
	char *end;
	unsigned long major = strtoul(version, &end, 10);

	return major > 2 ||
	       (major == 2 && *end == '.' && strtoul(end + 1, NULL, 10) >= 35);
}

const char *tls_layout_find(void)
{
	struct tls_layout *l = &tls_layout;
	struct tls_libc *c = &tls_libc;
	void (*static_info)(size_t *, size_t *);
	const char *(*version)(void);
	const ptrdiff_t *rseq;
	const uint32_t *size;

	*(void **)&static_info = tls_symbol("_dl_get_tls_static_info");
	*(void **)&c->allocate = tls_symbol("_dl_allocate_tls");
	*(void **)&c->call_dtors = tls_symbol("__call_tls_dtors");
	*(void **)&c->ctype_init = tls_symbol("__ctype_init");
	size = tls_symbol("_thread_db_sizeof_pthread");
	*(void **)&version = tls_symbol("gnu_get_libc_version");
	rseq = tls_symbol("__rseq_offset");
	if (!version)
		return "the libc is not a shared glibc";
	if (!static_info || !c->allocate || !c->call_dtors || !c->ctype_init ||
	    !size || (!rseq && has_rseq(version())))
		return "this glibc lacks the symbols needed";
	l->rseq_off = rseq ? *rseq : 0;
	static_info(&l->static_size, &l->align);
	l->pthread_size = *size;
	if (l->align < 64)
		l->align = 64;
	if (l->align > 4096 || l->static_size > (1u << 20) ||
	    l->pthread_size > 16384)
		return "this program's static TLS is too large";
#if defined(__x86_64__)
	l->pd_before_tp = 0;
#else
	l->pd_before_tp = l->pthread_size;
#endif
	if (!tls_db_field("_thread_db_pthread_tid", &l->tid_off) ||
	    !tls_db_field("_thread_db_pthread_list", &l->list_off) ||
	    !tls_db_field("_thread_db_pthread_specific", &l->specific_off))
		return "this glibc lacks the symbols needed";
	return NULL;
}

/* Where the kernel was not told: the empty list, linked to itself twice, with
 * a small negative offset and a null behind it. */
static char *find_robust_list(char *pd)
{
	uintptr_t *w = (uintptr_t *)pd;
	size_t i, n = tls_layout.pthread_size / sizeof(*w);

	for (i = 1; i + 2 < n; i++)
		if (w[i] == (uintptr_t)&w[i] && w[i - 1] == w[i] &&
		    (intptr_t)w[i + 1] < 0 && (intptr_t)w[i + 1] > -256 &&
		    !w[i + 2])
			return (char *)&w[i];
	return NULL;
}

const char *tls_layout_prove(void)
{
	struct tls_layout *l = &tls_layout;
	uintptr_t tp = arch_tp();
	char *pd = tls_pd(tp), *head = NULL;
	uint32_t *many;
	void **node, **resp;
	size_t len = 0;

	if ((uintptr_t)pthread_self() != (uintptr_t)pd)
		return "struct pthread is not where it should be";
	if (*(pid_t *)(pd + l->tid_off) != (pid_t)syscall(SYS_gettid))
		return "the thread id is not where it should be";
	node = (void **)(pd + l->list_off);
	if (((void ***)node)[0][1] != node || ((void ***)node)[1][0] != node)
		return "the thread list is not where it should be";
	if (*(void **)(pd + l->specific_off) !=
	    pd + l->specific_off - SPECIFIC_1STBLOCK)
		return "thread-specific data is not where it should be";
	if (syscall(SYS_get_robust_list, 0, &head, &len))
		head = find_robust_list(pd); /* qemu-user */
	if (head > pd && head < pd + l->pthread_size) {
		l->robust_off = (size_t)(head - pd);
		l->futex_offset = ((uintptr_t *)head)[1];
		if (((void **)head)[-1] != head)
			return "the robust list is not where it should be";
	}
	resp = tls_resp();
	if (resp && *(char **)resp > pd &&
	    *(char **)resp < pd + l->pthread_size) {
		l->resp_off = (ptrdiff_t)((uintptr_t)resp - tp);
		l->res_off = (size_t)(*(char **)resp - pd);
	}
	l->errno_off = (ptrdiff_t)((uintptr_t)&errno - tp);
	l->h_errno_off = (ptrdiff_t)((uintptr_t)&h_errno - tp);
	l->self_off = (ptrdiff_t)((uintptr_t)&uthread_here - tp);
#if defined(__x86_64__)
	memcpy(l->header, (char *)tp + 0x18, sizeof(l->header));
	many = (uint32_t *)(void *)l->header;
	many[1] = 0; /* a lookup in progress */
#else
	l->multiple = *(uint32_t *)pd;
	many = &l->multiple;
#endif
	/* Without this the loader tells nobody of its lookups. */
	if (*many > 1)
		return "the word for more than one thread is not where it should be";
	*many = 1;
#if defined(__x86_64__)
	l->lookup_off = 0x1c;
#else
	l->lookup_off = (ptrdiff_t)sizeof(*many) - (ptrdiff_t)l->pd_before_tp;
#endif
	return NULL;
}
