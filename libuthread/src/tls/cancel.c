/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.c - what glibc keeps of a thread for cancellation: whether it may be
 * cancelled, and how, and the handlers of pthread_cleanup_push() in C that was
 * built without -fexceptions. libc never cancels a uthread, but it may ask, and
 * set, and end with handlers pushed.
 *
 * Such a handler is a jump buffer on the stack of its function, in a list whose
 * head is in struct pthread. Who ends jumps there; the function runs the handler
 * and calls __pthread_unwind_next() (thread/pthread.c), and so on.
 *
 * libc's own functions have a list of another kind, of plain functions: what
 * printf() does with the lock of a stream, or pthread_cond_wait() with the mutex.
 *
 * Up to glibc 2.40 libc makes a thread asynchronously cancellable around each system
 * call that is a cancellation point, in whatever function of its own, and nowhere
 * else. That is the mark by which such a call is known from one that sleeps for a
 * lock (preempt/asked.c). From 2.41 on the call's address is compared with symbols
 * that nobody else sees, and there is no mark.
 *
 * Nothing says where these fields are. They are found on a real pthread by what
 * libc's own functions change there. Where anything else is seen libc's functions
 * set them back each time, and handlers are left alone.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "tls/tls.h"

/* Of libc's; not declared where -fexceptions is. */
extern void __pthread_register_cancel(__pthread_unwind_buf_t *buf)
	__attribute__((weak));
extern void __pthread_unregister_cancel(__pthread_unwind_buf_t *buf)
	__attribute__((weak));
extern void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buf,
				  void (*fn)(void *), void *arg)
	__attribute__((weak));
extern void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buf,
				 int execute) __attribute__((weak));
extern const char *gnu_get_libc_version(void) __attribute__((weak));

struct cancel_at cancel_at;

static inline char *pd_of(const struct uthread *ut)
{
	return (char *)tls_pthread(ut);
}

static inline __pthread_unwind_buf_t **head_of(const struct uthread *ut)
{
	return (__pthread_unwind_buf_t **)(pd_of(ut) + cancel_at.handlers);
}

static inline struct _pthread_cleanup_buffer **
inner_of(const struct uthread *ut)
{
	return (struct _pthread_cleanup_buffer **)(pd_of(ut) + cancel_at.inner);
}

void cancel_forget(struct uthread *me)
{
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	/* Left by a return, which is not allowed. */
	if (cancel_at.handlers && !(load_relaxed(&me->flags) & UT_MAIN))
		*head_of(me) = NULL;
	if (cancel_at.inner)
		*inner_of(me) = NULL;
}

void *cancel_handler(const struct uthread *me)
{
	__pthread_unwind_buf_t *buf;

	if (!cancel_at.handlers || !(load_relaxed(&me->flags) & UT_OWN_TLS))
		return NULL;
	buf = *head_of(me);
	/* The first one of main is libc's, for the end of the process. */
	if (buf && load_relaxed(&me->flags) & UT_MAIN && !buf->__pad[0])
		return NULL;
	return buf;
}

void cancel_jump(void *handler)
{
	void *env = ((__pthread_unwind_buf_t *)handler)->__cancel_jmp_buf;

	/* One without room for a signal mask, which was not saved, and the
	 * compiler need not know. */
	__asm__("" : "+r"(env));
	_longjmp(env, 1);
}

void cancel_handled(void *handler)
{
	__pthread_unregister_cancel(handler);
}

struct _pthread_cleanup_buffer *cancel_inner(const struct uthread *me)
{
	if (!cancel_at.inner || !(load_relaxed(&me->flags) & UT_OWN_TLS))
		return NULL;
	return *inner_of(me);
}

void cancel_run_inner(struct uthread *me)
{
	struct _pthread_cleanup_buffer *buf = *inner_of(me);

	*inner_of(me) = buf->__prev;
	buf->__routine(buf->__arg);
}

bool cancel_marks(const struct uthread *ut)
{
	return cancel_at.marks && load_relaxed(&ut->flags) & UT_OWN_TLS;
}

bool cancel_is_marked(const struct uthread *ut)
{
	return cancel_marks(ut) && pd_of(ut)[cancel_at.type] & cancel_at.async;
}

/* By libc's function: of main the byte is others' to change, too. */
void cancel_unmark(const struct uthread *me)
{
	if (cancel_is_marked(me))
		pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
}

bool cancel_is_off(const struct uthread *ut)
{
	/* Older ones keep both in one byte, and this is its lowest bit. */
	return load_relaxed(&ut->flags) & UT_OWN_TLS && cancel_at.sure &&
	       pd_of(ut)[cancel_at.state] & PTHREAD_CANCEL_DISABLE;
}

/* ---- finding them ---- */

/* The one byte that is another now; 0: none, or several. */
static size_t changed(const char *pd, const char *before)
{
	size_t i, found = 0;

	for (i = 0; i < tls_layout.pthread_size; i++) {
		if (pd[i] == before[i])
			continue;
		if (found)
			return 0;
		found = i;
	}
	return found;
}

static void find_handlers(const char *pd)
{
	__pthread_unwind_buf_t buf, *now;
	size_t i, found = 0;

	if (!__pthread_register_cancel || !__pthread_unregister_cancel)
		return;
	__pthread_register_cancel(&buf);
	for (i = 0; i < tls_layout.pthread_size; i += sizeof(now)) {
		memcpy(&now, pd + i, sizeof(now));
		if (now == &buf)
			found = i;
	}
	__pthread_unregister_cancel(&buf);
	memcpy(&now, pd + found, sizeof(now));
	if (found && now == buf.__pad[0])
		cancel_at.handlers = found;
}

static void nothing(void *unused)
{
	(void)unused;
}

static void find_inner(const char *pd)
{
	struct _pthread_cleanup_buffer buf, *now;
	size_t i, found = 0;

	if (!_pthread_cleanup_push || !_pthread_cleanup_pop)
		return;
	_pthread_cleanup_push(&buf, nothing, NULL);
	for (i = 0; i < tls_layout.pthread_size; i += sizeof(now)) {
		memcpy(&now, pd + i, sizeof(now));
		if (now == &buf)
			found = i;
	}
	now = buf.__prev;
	_pthread_cleanup_pop(&buf, 0);
	if (found && !memcmp(pd + found, &now, sizeof(now)))
		cancel_at.inner = found;
}

static bool libc_marks(void)
{
	const char *version, *minor;

	if (!gnu_get_libc_version)
		return false;
	version = gnu_get_libc_version();
	minor = strchr(version, '.');
	return !strncmp(version, "2.", 2) && strtol(minor + 1, NULL, 10) <= 40;
}

void cancel_find(const char *pd)
{
	static char before[16384] LARGE; /* tls_layout_find() allows no more */

	if (tls_layout.pthread_size > sizeof(before))
		return;
	memcpy(before, pd, tls_layout.pthread_size);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	cancel_at.state = changed(pd, before);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	memcpy(before, pd, tls_layout.pthread_size);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	cancel_at.type = changed(pd, before);
	cancel_at.async = pd[cancel_at.type];
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	cancel_at.sure = cancel_at.state && cancel_at.type &&
			 !pd[cancel_at.state] && !pd[cancel_at.type];
	find_handlers(pd);
	find_inner(pd);
	cancel_at.marks = cancel_at.sure && cancel_at.inner && libc_marks();
}
