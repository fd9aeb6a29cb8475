/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbols.c - libc's symbols that own TLS needs, looked up before the program runs.
 *
 * dlsym() takes the loader's lock, which who opens a library holds until the library's
 * constructors are through. Where one of these makes the first thread, the runtime is
 * started by another pthread (process/start.c), which would wait for that lock, and the
 * constructor for it.
 *
 * Rejected: looking them up at the start, by who starts (of two, one may hold the lock
 * of the start and the other the loader's).
 */
#include <dlfcn.h>
#include <string.h>

#include "tls/tls.h"

static struct {
	const char *name;
	void *at; /* NULL: there is none, or nobody has looked */
} symbols[] = {
	{ "_dl_allocate_tls", NULL },
	{ "_dl_deallocate_tls", NULL },
	{ "_dl_get_tls_static_info", NULL },
	{ "__call_tls_dtors", NULL },
	{ "__ctype_init", NULL },
	{ "__nptl_nthreads", NULL },
	{ "gnu_get_libc_version", NULL },
	{ "__pthread_keys", NULL },
	{ "__rseq_offset", NULL },
	{ "_rtld_global", NULL },
	{ "_thread_db___pthread_keys", NULL },
	{ "_thread_db_dtv_slotinfo_gen", NULL },
	{ "_thread_db_dtv_slotinfo_list_len", NULL },
	{ "_thread_db_dtv_slotinfo_list_next", NULL },
	{ "_thread_db_dtv_slotinfo_list_slotinfo", NULL },
	{ "_thread_db_dtv_slotinfo_map", NULL },
	{ "_thread_db_pthread_key_struct_destr", NULL },
	{ "_thread_db_pthread_key_struct_seq", NULL },
	{ "_thread_db_pthread_list", NULL },
	{ "_thread_db_pthread_specific", NULL },
	{ "_thread_db_pthread_tid", NULL },
	{ "_thread_db_rtld_global__dl_stack_user", NULL },
	{ "_thread_db_rtld_global__dl_tls_dtv_slotinfo_list", NULL },
	{ "_thread_db_sizeof_dtv_slotinfo", NULL },
	{ "_thread_db_sizeof_pthread", NULL },
	{ "_thread_db_sizeof_pthread_key_struct", NULL },
};

/* A variable of each thread: how far from the thread pointer. 0: none. */
static ptrdiff_t resp_off;
static uint32_t looked; /* atomic */

AT_START static void look(void)
{
	char *resp = dlsym(RTLD_DEFAULT, "__resp");
	size_t i;

	for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		symbols[i].at = dlsym(RTLD_DEFAULT, symbols[i].name);
	resp_off = resp ? (ptrdiff_t)((uintptr_t)resp - arch_tp()) : 0;
	store_release(&looked, 1);
}

/* Before that: a constructor of another library came first. */
void *tls_symbol(const char *name)
{
	size_t i;

	if (likely(load_acquire(&looked)))
		for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
			if (!strcmp(symbols[i].name, name))
				return symbols[i].at;
	return dlsym(RTLD_DEFAULT, name);
}

void *tls_resp(void)
{
	if (unlikely(!load_acquire(&looked)))
		return dlsym(RTLD_DEFAULT, "__resp");
	return resp_off ? (void *)(arch_tp() + (uintptr_t)resp_off) : NULL;
}
