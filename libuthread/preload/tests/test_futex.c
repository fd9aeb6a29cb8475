/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_futex.c - calls for words that do not know each other: who waits in
 * futex_waitv(), or by the calls of Linux 6.7, is woken by SYS_futex, and the other way
 * round.
 */
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "check.h"

#define NR_WAITV 449
#define NR_WAKE 454
#define NR_WAIT 455
#define NR_REQUEUE 456
#define PRIVATE_WORD (2u | 128u)
#define ALL_BITS 0xffffffffl

struct wait_for {
	uint64_t value, word;
	uint32_t flags, reserved;
};

static uint32_t words[3];

static struct wait_for of(uint32_t *word)
{
	const struct wait_for w = { 0, (uintptr_t)word, PRIVATE_WORD, 0 };

	return w;
}

/* As the kernel says it: which of them. */
static void *waits_for_two(void *arg)
{
	const struct wait_for w[2] = { of(&words[0]), of(&words[1]) };

	IS(syscall(NR_WAITV, w, 2, 0, NULL, CLOCK_MONOTONIC), (long)arg);
	return NULL;
}

static void *waits_for_one(void *arg)
{
	IS(syscall(SYS_futex, &words[1], FUTEX_WAIT_BITSET_PRIVATE, 0, NULL,
		   NULL, (long)arg),
	   0);
	return NULL;
}

static void *waits_by_the_new_one(void *arg)
{
	IS(syscall(NR_WAIT, &words[1], 0l, (long)arg, (long)PRIVATE_WORD, NULL,
		   CLOCK_MONOTONIC),
	   0);
	return NULL;
}

enum by { WAKE, BITS, OPERATION, REQUEUE, NEW_WAKE, NEW_REQUEUE };

/* How many were woken, or moved to where nobody is. */
static long wake(enum by by)
{
	const struct wait_for w[2] = { of(&words[1]), of(&words[2]) };

	switch (by) {
	case WAKE:
		return syscall(SYS_futex, &words[1], FUTEX_WAKE_PRIVATE, 1);
	case BITS:
		return syscall(SYS_futex, &words[1], FUTEX_WAKE_BITSET_PRIVATE,
			       1, NULL, NULL, 6);
	case OPERATION:
		return syscall(SYS_futex, &words[2], FUTEX_WAKE_OP_PRIVATE, 1,
			       1l, &words[1],
			       FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0));
	case REQUEUE:
		return syscall(SYS_futex, &words[1], FUTEX_CMP_REQUEUE_PRIVATE,
			       1, 0l, &words[2], 0);
	case NEW_WAKE:
		return syscall(NR_WAKE, &words[1], 2l, 1l, (long)PRIVATE_WORD);
	case NEW_REQUEUE:
		return syscall(NR_REQUEUE, w, 0l, 1l, 0l);
	}
	return -1;
}

/* It may not wait yet. */
static void try(void *(*waits)(void *), long arg, enum by by)
{
	const pthread_t t = start(waits, (void *)arg);
	long woken;

	while (!(woken = wake(by)))
		usleep(1000);
	IS(woken, 1);
	IS(pthread_join(t, NULL), 0);
}

/* A value below one is one, as far as SYS_futex goes. */
static void wakes_none(void)
{
	const pthread_t t = start(waits_for_one, (void *)ALL_BITS);
	long woken;

	while (!(woken = syscall(SYS_futex, &words[1], FUTEX_WAKE_PRIVATE, 0)))
		usleep(1000);
	IS(woken, 1);
	IS(pthread_join(t, NULL), 0);
}

static void fails(long got, int error)
{
	IS(got, -1);
	IS(errno, error);
}

static void wrong(void)
{
	struct wait_for w[2] = { of(&words[0]), of(&words[1]) };
	const struct timespec past = { 0, 0 }, bad = { 0, -1 };
	const long word = (long)&words[0], odd = (long)words + 1;
	const long flags = PRIVATE_WORD;

	fails(syscall(NR_WAIT, word, 1l, ALL_BITS, flags, NULL, 1l), EAGAIN);
	fails(syscall(NR_WAIT, word, 0l, ALL_BITS, flags, &past, 1l),
	      ETIMEDOUT);
	fails(syscall(NR_WAIT, word, 0l, ALL_BITS, flags, &bad, 1l), EINVAL);
	fails(syscall(NR_WAIT, word, 0l, ALL_BITS, flags, &past, 7l), EINVAL);
	fails(syscall(NR_WAIT, word, 0l, ALL_BITS, flags, 8l, 1l), EFAULT);
	fails(syscall(NR_WAIT, word, 0l, 0l, flags, NULL, 1l), EINVAL);
	fails(syscall(NR_WAIT, word, 1l << 32, ALL_BITS, flags, NULL, 1l),
	      EINVAL);
	fails(syscall(NR_WAIT, odd, 0l, ALL_BITS, flags, NULL, 1l), EINVAL);
	fails(syscall(NR_WAIT, 8l, 0l, ALL_BITS, flags, NULL, 1l), EFAULT);
	fails(syscall(NR_WAKE, odd, ALL_BITS, 1l, flags), EINVAL);
	fails(syscall(NR_WAKE, word, 0l, 1l, flags), EINVAL);
	IS(syscall(NR_WAKE, word, ALL_BITS, 0l, flags), 0);
	IS(syscall(NR_WAKE, word, ALL_BITS, 1l, flags), 0);
	fails(syscall(NR_REQUEUE, w, 0l, -1l, 0l), EINVAL);
	fails(syscall(NR_REQUEUE, 8l, 0l, 1l, 0l), EFAULT);
	w[0].value = 1;
	fails(syscall(NR_REQUEUE, w, 0l, 1l, 0l), EAGAIN);
}

/* Only a wait for bits has a choice of clocks. With FUTEX_WAIT some kernels have it: of these
 * the word is told to be another. */
static void clocks(void)
{
	const int realtime = FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME;
	const struct timespec past = { 0, 0 }, bad = { 0, -1 };
	long got;

	fails(syscall(SYS_futex, &words[0], FUTEX_WAKE | realtime, 1), ENOSYS);
	fails(syscall(SYS_futex, &words[0], FUTEX_REQUEUE | realtime, 1, 1l,
		      &words[1], 0),
	      ENOSYS);
	fails(syscall(SYS_futex, &words[0], FUTEX_WAIT_BITSET | realtime, 0,
		      &past, NULL, 1),
	      ETIMEDOUT);
	fails(syscall(SYS_futex, &words[0], FUTEX_WAIT | realtime, 0, &bad),
	      EINVAL);
	/* A shared one is the kernel's. */
	got = syscall(SYS_futex, &words[0], FUTEX_WAIT | FUTEX_CLOCK_REALTIME,
		      1, &past);
	IS(got, -1);
	fails(syscall(SYS_futex, &words[0], FUTEX_WAIT | realtime, 1, &past),
	      errno);
}

static int has(long nr)
{
	return syscall(nr, 0l, 0l, 0l, 0l, 0l, 0l) != -1 || errno != ENOSYS;
}

int main(void)
{
	enum by by;
	int some = 0;

	for (by = WAKE; by <= REQUEUE; by++) {
		try(waits_for_one, ALL_BITS, by);
		if (has(NR_WAITV))
			try(waits_for_two, 1, by);
	}
	wakes_none();
	clocks();
	if (has(NR_WAKE) && has(NR_WAIT) && has(NR_REQUEUE)) {
		some = 1;
		wrong();
		for (by = WAKE; by <= NEW_REQUEUE; by++)
			try(waits_by_the_new_one, ALL_BITS, by);
		try(waits_for_one, 2, NEW_WAKE);
		if (has(NR_WAITV)) {
			try(waits_for_two, 1, NEW_WAKE);
			try(waits_for_two, 1, NEW_REQUEUE);
		}
	}
	printf("the calls of Linux 6.7: %s\n", some ? "there" : "none");
	return 0;
}
