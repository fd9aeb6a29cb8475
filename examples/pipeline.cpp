// SPDX-License-Identifier: Apache-2.0
/*
 * pipeline N [SQUARERS]: the sum of the squares of the primes up to N, as a pipeline
 * of channels, as Go's text books have it, in C++.
 *
 *     numbers -> sieve: a uthread for each prime so far -> squarers -> sum
 *
 * - Each stage is a uthread that owns the channel it sends to, and closes it when it
 *   is done; `for (x : channel)` of the next one ends with that. No flag, no count.
 * - The sieve grows while it runs: a uthread and a channel for each prime. What one
 *   costs is why this is a program and not a joke; with pthreads it is a joke.
 * - Fan-out: several squarers receive from one channel. Fan-in: they send to one,
 *   which is closed by who waits for the group of them.
 * - All are children of one scope: an exception in any of them cancels the rest, and
 *   join() throws it here.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <uthread.hpp>

using numbers = uthreads::channel<std::uint64_t>;
using line = std::shared_ptr<numbers>;

static line make_line()
{
	return std::make_shared<numbers>(16);
}

static void count(line out, std::uint64_t last)
{
	for (std::uint64_t i = 2; i <= last; i++)
		out->send(i);
	out->close();
}

static void drop_multiples(line in, line out, std::uint64_t prime)
{
	for (std::uint64_t x : *in)
		if (x % prime)
			out->send(x);
	out->close();
}

/* The first number that comes through all filters is the next prime. */
static void sieve(uthreads::scope &all, line in, line primes)
{
	while (auto prime = in->recv()) {
		line rest = make_line();

		primes->send(*prime);
		all.spawn(drop_multiples, in, rest, *prime);
		in = rest;
	}
	primes->close();
}

static void square(line in, line out, uthreads::wait_group &busy)
{
	for (std::uint64_t x : *in)
		out->send(x * x);
	busy.done();
}

static std::uint64_t number(const char *text, std::uint64_t most)
{
	char *end;
	const unsigned long long n = std::strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n < 1 || n > most) {
		std::fprintf(stderr,
			     "pipeline: %s: give a number from 1 to %llu\n",
			     text, static_cast<unsigned long long>(most));
		std::exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3) {
		std::fputs("usage: pipeline N [SQUARERS]\n", stderr);
		return 2;
	}
	const std::uint64_t last = number(argv[1], 1000000);
	const std::uint64_t squarers = argc == 3 ? number(argv[2], 1000) : 4;

	try {
		const line candidates = make_line(), primes = make_line(),
			   squares = make_line();
		uthreads::wait_group busy(static_cast<unsigned>(squarers));
		uthreads::scope all;
		std::uint64_t sum = 0, n = 0;

		all.spawn(count, candidates, last);
		all.spawn(sieve, std::ref(all), candidates, primes);
		for (std::uint64_t i = 0; i < squarers; i++)
			all.spawn(square, primes, squares, std::ref(busy));
		all.spawn([&] {
			busy.wait();
			squares->close();
		});
		all.spawn([&] {
			for (std::uint64_t x : *squares) {
				sum += x;
				n++;
			}
		});
		all.join();
		std::printf("%llu primes, squares' sum %llu\n",
			    static_cast<unsigned long long>(n),
			    static_cast<unsigned long long>(sum));
		if (std::fflush(stdout))
			throw std::runtime_error("standard output: no room");
	} catch (const std::exception &e) {
		std::fprintf(stderr, "pipeline: %s\n", e.what());
		return 1;
	}
	return 0;
}
