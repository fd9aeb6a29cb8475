/* SPDX-License-Identifier: Apache-2.0 */
/* test_scope_async.c - scopes cancelled by children that may end anywhere. */
#include "util.h"

static uthread_scope_t scope;

/* Itself among the others: not while it holds the scope. */
static int cancels_all(void *arg)
{
	(void)arg;
	CHECK_EQ(uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	uthread_scope_cancel(&scope);
	CHECK(!"it has ended");
	return 0;
}

static int fails(void *arg)
{
	CHECK_EQ(uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	return (int)(intptr_t)arg;
}

static int waits(void *arg)
{
	(void)arg;
	for (;;)
		uthread_sleep(1000 * MS);
	return 0;
}

static void beginning(void)
{
	start_workers(1);
	CHECK_EQ(uthread_scope_init(&scope, NULL, 0), 0);
	CHECK_EQ(uthread_scope_create(&scope, NULL, waits, NULL), 0);
}

TEST(scope_cancelled_by_an_asynchronous_child)
{
	beginning();
	CHECK_EQ(uthread_scope_create(&scope, NULL, cancels_all, NULL), 0);
	CHECK_EQ(uthread_scope_leave(&scope), ECANCELED);
}

TEST(scope_with_an_asynchronous_child_that_fails)
{
	beginning();
	CHECK_EQ(uthread_scope_create(&scope, NULL, fails, (void *)7), 0);
	CHECK_EQ(uthread_scope_leave(&scope), 7);
}

TEST_MAIN()
