// SPDX-License-Identifier: Apache-2.0
// test_cancel.cc - cancellation in C++: destructors, handlers among them, catch.

#include "util.h"

#include <string>
#include <vector>

static constexpr uint64_t LONG_NS = 3600ull * 1000000000u;

static std::string said;
static int begun;

namespace {
struct says {
	explicit says(char c) : c_(c)
	{
	}
	~says()
	{
		said += c_;
	}
	char c_;
};
} // namespace

static void say(void *what)
{
	said += *static_cast<const char *>(what);
}

static void *text(const char *s)
{
	return const_cast<char *>(s);
}

static void *canceled(uthread_t t)
{
	while (!load(&begun))
		uthread_yield();
	CHECK_EQ(uthread_cancel(t), 0);
	return joined(t);
}

static void *with_destructors(void *arg)
{
	says a('a');
	std::vector<std::string> some(10, std::string(100, 'x'));

	uthread_cleanup_push(say, text("b"));
	says c('c');
	uthread_cleanup_push(say, text("d"));
	says e('e');
	store(&begun, 1);
	uthread_sleep(LONG_NS);
	uthread_cleanup_pop(0);
	uthread_cleanup_pop(0);
	return arg;
}

// Exactly as scopes are left: handlers are destructors among the others.
TEST(handlers_and_destructors_in_their_order)
{
	CHECK(canceled(spawn(with_destructors, nullptr)) == UTHREAD_CANCELED);
	CHECK(said == "edcba");
}

static void *with_exception(void *arg)
{
	try {
		uthread_cleanup_push(say, text("x"));
		throw 1;
		uthread_cleanup_pop(0);
	} catch (int) {
		said += 'y';
	}
	uthread_cleanup_push(say, text("z"));
	uthread_cleanup_pop(1);
	uthread_cleanup_push(say, text("w"));
	uthread_cleanup_pop(0);
	return arg;
}

TEST(handlers_run_for_exceptions_too)
{
	in_uthread(with_exception, nullptr);
	CHECK(said == "xyz");
}

static void *rethrows(void *arg)
{
	try {
		says a('a');
		store(&begun, 1);
		uthread_sleep(LONG_NS);
	} catch (...) {
		said += 'b';
		throw;
	}
	return arg;
}

TEST(catch_that_rethrows)
{
	CHECK(canceled(spawn(rethrows, nullptr)) == UTHREAD_CANCELED);
	CHECK(said == "ab");
}

static void *swallows(void *arg)
{
	try {
		store(&begun, 1);
		uthread_sleep(LONG_NS);
	} catch (...) {
	}
	return arg;
}

TEST_DIES(catch_that_swallows, SIGABRT, "caught and not thrown again")
{
	canceled(spawn(swallows, nullptr));
}

static void never_throws() noexcept
{
	says a('a');

	store(&begun, 1);
	uthread_sleep(LONG_NS);
}

static void *in_noexcept(void *arg)
{
	never_throws();
	return arg;
}

TEST_DIES(noexcept_ends_the_process, SIGABRT, "")
{
	canceled(spawn(in_noexcept, nullptr));
}

// One that an exception is being handled in, or thrown in a destructor.
static void *in_catch(void *arg)
{
	try {
		throw std::string("one");
	} catch (const std::string &) {
		says a('a');
		store(&begun, 1);
		uthread_sleep(LONG_NS);
	}
	return arg;
}

TEST(while_it_handles_an_exception)
{
	for (int i = 0; i < 50; i++) {
		said.clear();
		store(&begun, 0);
		CHECK(canceled(spawn(in_catch, nullptr)) == UTHREAD_CANCELED);
		CHECK(said == "a");
	}
}

static void *throws_after(void *arg)
{
	try {
		uthread_setcancelstate(UTHREAD_CANCEL_DISABLE, nullptr);
		store(&begun, 1);
		while (!load(static_cast<int *>(arg)))
			uthread_yield();
		throw 1;
	} catch (int) {
		said += 'c';
	}
	uthread_setcancelstate(UTHREAD_CANCEL_ENABLE, nullptr);
	says d('d');
	uthread_testcancel();
	return arg;
}

TEST(exceptions_are_not_disturbed_where_it_is_disabled)
{
	int go = 0;
	uthread_t t = spawn(throws_after, &go);

	while (!load(&begun))
		uthread_yield();
	CHECK_EQ(uthread_cancel(t), 0);
	store(&go, 1);
	CHECK(joined(t) == UTHREAD_CANCELED);
	CHECK(said == "cd");
}

static __attribute__((noinline)) void *computes(void *arg)
{
	uthread_setcanceltype(UTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
	store(&begun, 1);
	for (;;)
		__asm__ volatile("" ::: "memory");
	return arg;
}

static __attribute__((noinline)) void *calls_who_computes(void *arg)
{
	says a('a'); // its frame is left at a call, so it may have one
	return computes(arg);
}

// A frame without destructors may be left anywhere, those above at their calls.
TEST(asynchronously)
{
	if (uthread_workers() < 1 || !stats().tick_ns)
		SKIP("without ticks");
	for (int i = 0; i < 20; i++) {
		said.clear();
		store(&begun, 0);
		CHECK(canceled(spawn(calls_who_computes, nullptr)) ==
		      UTHREAD_CANCELED);
		CHECK(said == "a");
	}
}

TEST_MAIN()
