/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread/futex.h - wait until a word changes, as the kernel's futex(): what other
 * people's locks are made of. <uthread.h> does not include it.
 *
 * Who waits is found by the word's address, of which nothing is kept there. A
 * uthread parks, a plain pthread sleeps. Private to the process. Nobody is woken
 * without a wake, a deadline or a cancellation, but that a wake in a handler that
 * interrupts a plain pthread inside the runtime may be one of all who wait for that
 * word, and where there were several such, for others.
 *
 * Errors: 0 or an error number, as in <uthread.h>; errno is left alone.
 */
#ifndef UTHREAD_FUTEX_H
#define UTHREAD_FUTEX_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h> /* clockid_t, in strict C99 too */

struct timespec; /* <time.h> */

#ifdef __cplusplus
extern "C" {
#endif

#define UTHREAD_FUTEX_ANY 0xffffffffu /* bits: as anybody else */
#define UTHREAD_FUTEX_ALL INT_MAX /* count */

enum {
	/* A cancellation ends the wait: ECANCELED, and the caller, when all is right
	 * again, calls uthread_testcancel(). With one of the next two a handler may
	 * leave the wait by siglongjmp(), too: the same, but it may have been woken,
	 * and is to pass that on. */
	UTHREAD_FUTEX_CANCEL = 1,
	/* A signal's handler without SA_RESTART, or any, ends the wait: EINTR. */
	UTHREAD_FUTEX_EINTR = 2,
	UTHREAD_FUTEX_EINTR_ANY = 4,
};

/*
 * Wait while *word is `value`, until somebody wakes with a bit of `bits` (0: 0),
 * or `clock`, CLOCK_MONOTONIC or CLOCK_REALTIME, has come to `deadline` (NULL:
 * none). EAGAIN: it is another value now. ETIMEDOUT. ECANCELED, EINTR: see above.
 * EINVAL: no bits, a malformed deadline, another clock.
 */
int uthread_futex_wait(const uint32_t *word, uint32_t value, uint32_t bits,
		       clockid_t clock, const struct timespec *deadline,
		       int flags);
/* Wake so many, who came first first; returns how many. The word may be gone:
 * its address is all that counts. */
int uthread_futex_wake(const uint32_t *word, int count, uint32_t bits);
/* Wake so many and let up to `move` others wait at `to` from now on; returns how
 * many were woken or moved. */
int uthread_futex_requeue(const uint32_t *word, int count, int move,
			  const uint32_t *to);

/*
 * A lock of one word: 0 free, 1 held, 2 held and somebody may wait. Who makes 1 of 0
 * by a compare-and-swap has it, and who makes 0 of its 1 so has given it back; these
 * do the rest. Who comes by may take it before who was woken, but whoever has waited
 * for half a millisecond is next.
 *
 * `heat` (NULL: none), 0 at first, is where the lock learns how much it is used. Where
 * it is held nearly all of the time who waits neither spins nor is taken to another
 * worker at once when it is woken.
 */
/* ETIMEDOUT, ECANCELED, EINTR, EINVAL: as uthread_futex_wait(), with its `flags`. */
int uthread_futex_lock(uint32_t *word, int8_t *heat, clockid_t clock,
		       const struct timespec *deadline, int flags);
void uthread_futex_unlock(uint32_t *word);

#ifdef __cplusplus
}
#endif
#endif /* UTHREAD_FUTEX_H */
