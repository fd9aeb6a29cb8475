/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_spares_said.c - what is said when no spare worker is left, and what is counted of
 * the calls that workers sleep in.
 */
#include <sys/syscall.h>

#include "preempt/spare.h"
#include "spares.h"

/* ---- what is said ---- */

/* The monitor asks /proc in which call a worker sleeps. */
static void need_numbers_of_calls(void)
{
	if (TEST_EMULATED)
		SKIP("qemu-user: /proc has the numbers of the host's calls");
}

/* Standard error is a file, of which is seen when the monitor has said something. */
static void blocks_beyond(void)
{
	const int out = dup(2), said = memfd_create("stderr", 0);
	char text[4096];
	uthread_attr_t a;
	uthread_t t[4];
	uint64_t old;
	ssize_t n;

	start(1, 1);
	CHECK_EQ(uthread_attr_init(&a), 0);
	CHECK_EQ(uthread_attr_setname(&a, "reader"), 0);
	CHECK_EQ(dup2(said, 2), 2);
	for (int round = 0; round < 2; round++) {
		store(&begun, 0);
		old = stats().blocked_refused;
		for (int i = 0; i < 4; i++)
			t[i] = spawn_attr(&a, reads, NULL);
		while (load(&begun) < 4 || stats().blocked_refused == old)
			usleep(1000);
		while (!lseek(said, 0, SEEK_END) || blocked_to_say())
			usleep(1000);
		unblock(t, 4);
		usleep(1100000); /* so often lines may come at all */
	}
	n = pread(said, text, sizeof(text), 0);
	CHECK(n > 0 && write(out, text, (size_t)n) == n);
	_exit(0);
}

TEST(the_limit_is_said_once_with_call_and_uthread)
{
	char err[4096], *at;

	need_numbers_of_calls();
	if (TEST_ASAN || TEST_TSAN)
		SKIP("no preemption under a sanitizer");
	CHECK_EQ(in_child(blocks_beyond, err, sizeof(err)), 0);
	fputs(err, stderr);
	CHECK_EQ(count(err, "uthread: "), 1);
	CHECK(strstr(err, "all 1 spare workers stand in"));
	CHECK(strstr(err, " 'reader' in read(), "));
	CHECK(strstr(err, "UTHREAD_SPARES=2 or more, up to 4096"));
	at = strstr(err, "; uthread ");
	CHECK(at && strtoul(at + 10, NULL, 10) >= UTHREAD_FIRST_ID);
}

/* ---- what is counted ---- */

static void *naps(void *arg)
{
	for (int i = 0; i < 5; i++)
		usleep(20000);
	return arg;
}

static const struct uthread_blocked *find(const struct uthread_blocked *list,
					  int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return &list[i];
	return NULL;
}

TEST(calls_are_counted)
{
	struct uthread_blocked list[16], first[1];
	const struct uthread_blocked *r, *s;
	uthread_t t[MANY], u[4];
	uint64_t old[16];
	int n;

	need_numbers_of_calls();
	start(2, 2 * MANY);
	CHECK_EQ(uthread_blocked_calls(NULL, 0, 0), 0);
	block(t, MANY);
	until_used(MANY - 2);
	for (int i = 0; i < 4; i++)
		u[i] = spawn(naps, NULL);
	for (int i = 0; i < 4; i++)
		joined(u[i]);
	n = uthread_blocked_calls(list, sizeof(*list), 16);
	CHECK(n >= 2 && n <= 16);
	r = find(list, n, "read()");
	CHECK(r && r->call == SYS_read && r->count >= MANY - 2 && r->ns > 0);
	s = find(list, n, "clock_nanosleep()");
	if (!s)
		s = find(list, n, "nanosleep()");
	CHECK(s && s->count >= 1);
	for (int i = 1; i < n; i++)
		CHECK(list[i - 1].count >= list[i].count);
	CHECK_EQ(uthread_blocked_calls(first, sizeof(*first), 1), n);
	CHECK_EQ(first->call, list[0].call);
	/* One that knows only numbers. */
	CHECK_EQ(uthread_blocked_calls((struct uthread_blocked *)old,
				       sizeof(*old), 16),
		 n);
	CHECK_EQ(old[1], (uint64_t)list[1].call);
	unblock(t, MANY);
}

TEST(calls_have_names)
{
	char text[UTHREAD_CALL_NAME_MAX];

	call_name(SYS_futex, text);
	CHECK(!strcmp(text, "futex()"));
	call_name(-1, text);
	CHECK(!strcmp(text, "a system call"));
	call_name(12345678, text);
	CHECK(!strcmp(text, "system call 12345678"));
}

TEST_MAIN()
