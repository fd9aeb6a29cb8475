/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boost_bench.cpp - the same work with Boost.Fiber and Boost.Context.
 *
 *	context          resume of a boost::context::fiber, per switch
 *	yield FIBERS     this_fiber::yield(), per yield
 *	create           launch + join, stacks from its pool
 *	create-malloc    launch + join, its default stack allocator
 *	mutex            lock + unlock that nobody else wants
 *	sem              round trip between two fibers; it has no semaphore, so
 *			 a mutex and two condition variables
 *
 * The scheduler is its default, round robin.
 */
#include <boost/context/fiber.hpp>
#include <boost/fiber/all.hpp>
#include <boost/version.hpp>

#include <utility>
#include <vector>

#include "bench.h"

namespace {

namespace bf = boost::fibers;

double per(const bench_run &r, double n)
{
	return static_cast<double>(r.ns) / n;
}

/* ---- the bare switch ---- */

boost::context::fiber other;

/* One call site for both sides would need the resumed fiber to resume the
 * resumer; boost::context::fiber is asymmetric, so this is its own best. */
void context_batch(void *, uint64_t n)
{
	for (; n; n--)
		other = std::move(other).resume();
}

void bench_context()
{
	other = boost::context::fiber([](boost::context::fiber &&back) {
		for (;;)
			back = std::move(back).resume();
		return std::move(back);
	});
	const bench_run r = bench_grow(context_batch, nullptr, 10000);
	const auto n = static_cast<double>(2 * r.n);
	bench_result("context", per(r, n), 2 * r.n, "%s", "");
	std::_Exit(0); /* the other side never ends */
}

/* ---- yield ---- */

struct ring {
	uint64_t n = 0; /* yields of each in this batch; 0: not yet */
	uint64_t arrived = 0;
	bool stop = false;
};

/* All fibers yield from this one call site, as in uthread_bench.c. */
BENCH_ONE_COPY void yields(uint64_t n)
{
	for (; n; n--)
		boost::this_fiber::yield();
}

void ring_batch(void *arg, uint64_t n)
{
	static_cast<ring *>(arg)->n = n;
	yields(n);
}

void bench_yield(uint64_t count)
{
	std::vector<bf::fiber> fibers;
	bench_run run{};
	ring r;

	fibers.emplace_back([&] {
		while (r.arrived < count - 1)
			boost::this_fiber::yield();
		run = bench_grow(ring_batch, &r, 20000 / count + 1);
		r.stop = true;
	});
	for (uint64_t i = 1; i < count; i++)
		fibers.emplace_back([&] {
			r.arrived++;
			while (!r.stop)
				yields(r.n ? r.n : 1);
		});
	for (auto &f : fibers)
		f.join();
	const uint64_t n = run.n * count;
	bench_result("yield", per(run, static_cast<double>(n)), n,
		     ",\"threads\":%llu,\"boost\":\"%s\"",
		     static_cast<unsigned long long>(count), BOOST_LIB_VERSION);
}

/* ---- create and join ---- */

void pooled_batch(void *arg, uint64_t n)
{
	auto &stacks = *static_cast<bf::pooled_fixedsize_stack *>(arg);

	for (; n; n--)
		bf::fiber(std::allocator_arg, stacks, [] {}).join();
}

void malloc_batch(void *, uint64_t n)
{
	for (; n; n--)
		bf::fiber([] {}).join();
}

/* ---- mutex, semaphore ---- */

bf::mutex mutex;
bf::condition_variable turned;
int turn; /* 0: the client's, 1: the server's, 2: stop */

void mutex_batch(void *, uint64_t n)
{
	for (; n; n--) {
		mutex.lock();
		mutex.unlock();
	}
}

void sem_batch(void *, uint64_t n)
{
	for (; n; n--) {
		std::unique_lock<bf::mutex> lock(mutex);
		turn = 1;
		turned.notify_one();
		turned.wait(lock, [] { return turn == 0; });
	}
}

void sem_server()
{
	std::unique_lock<bf::mutex> lock(mutex);

	for (;;) {
		turned.wait(lock, [] { return turn != 0; });
		if (turn == 2)
			return;
		turn = 0;
		turned.notify_one();
	}
}

void bench_sem()
{
	bf::fiber server(sem_server);
	const bench_run r = bench_grow(sem_batch, nullptr, 1000);

	{
		const std::unique_lock<bf::mutex> lock(mutex);
		turn = 2;
		turned.notify_one();
	}
	server.join();
	bench_result("sem", per(r, static_cast<double>(r.n)), r.n, "%s", "");
}

void bench_simple(const char *name, bench_fn *fn, void *arg)
{
	const bench_run r = bench_grow(fn, arg, 1000);

	bench_result(name, per(r, static_cast<double>(r.n)), r.n, "%s", "");
}

} // namespace

int main(int argc, char **argv)
{
	bf::pooled_fixedsize_stack stacks;

	bench_args(&argc, &argv);
	if (!strcmp(argv[0], "context"))
		bench_context();
	else if (!strcmp(argv[0], "yield"))
		bench_yield(argc > 1 ? strtoull(argv[1], nullptr, 10) : 2);
	else if (!strcmp(argv[0], "create"))
		bench_simple("create", pooled_batch, &stacks);
	else if (!strcmp(argv[0], "create-malloc"))
		bench_simple("create-malloc", malloc_batch, nullptr);
	else if (!strcmp(argv[0], "mutex"))
		bench_simple("mutex", mutex_batch, nullptr);
	else if (!strcmp(argv[0], "sem"))
		bench_sem();
	else
		bench_die("'%s' is no subcommand; see boost_bench.cpp",
			  argv[0]);
	return 0;
}
