/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work.hpp - what all work has in common: the trial, batches that grow, the result.
 *
 * A piece of work is a function that does a batch of n and says what it took, how many
 * operations that were, and a sum that only right work gives. The batch grows until
 * one takes long enough; the ones before are the warm-up, of which there is one at
 * least, and only the last is reported. A sum that is wrong ends everything.
 *
 * Work is written against `rt`, the runtime (runtime/README.md), and each file of
 * work/ is one piece of it. The Go and Rust peers have the same pieces.
 */
#ifndef PEERS_CPP_WORK_HPP
#define PEERS_CPP_WORK_HPP

#include "probe.hpp"

#include <array>
#include <atomic>
#include <fstream>

struct trial {
	std::string work;
	std::int64_t threads; /* how many, where the work is done by several */
	std::int64_t size; /* of the problem, where it has one */
	std::int64_t span_ns; /* the batch that counts takes at least this */
	std::vector<int> cpus;
	int workers; /* kernel threads of the runtime, where it can have several */
	bool own_tls;
};

inline trial read_trial(json_t *json)
{
	trial t;

	json_t *name = json_object_get(json, "work");
	t.work = json_is_string(name) ? json_string_value(name) : "";
	t.threads = probe::number(json, "threads", 1, 10000000);
	t.size = probe::number(json, "size", 0, 100000000);
	t.span_ns = probe::number(json, "span_ns", 1, 10000000000);
	t.workers = static_cast<int>(probe::number(json, "workers", 1, 64));
	t.own_tls = probe::choice(json, "tls", { "own", "shared" }) == "own";
	t.cpus = probe::stay_on(json, 64);
	return t;
}

struct outcome {
	std::int64_t ns, operations, sum, expected;
	/* What only some work has. */
	double bytes = -1; /* of memory, each */
	std::vector<std::int64_t> late; /* ns, each time somebody was to run */
};

/* This peer cannot do that at all, or not so much of it: no fault of anybody's. */
[[noreturn]] inline void unmeasured(const char *model,
				    const std::string &version,
				    const std::string &why)
{
	json_t *sample = probe::sample(model, version);

	json_object_set_new(sample, "wall_ns", json_integer(1));
	json_object_set_new(sample, "unmeasured", json_string(why.c_str()));
	probe::end(sample);
}

inline void check(const trial &t, const outcome &o)
{
	if (o.sum != o.expected)
		probe::fail("result", t.work + " gave " +
					      std::to_string(o.sum) +
					      " instead of " +
					      std::to_string(o.expected));
}

/* batch(n) with a growing n. */
template <typename Batch> outcome grow(const trial &t, Batch batch)
{
	std::int64_t n = 1;

	for (bool warm = false;; warm = true) {
		const outcome o = batch(n);
		check(t, o);
		if (warm && o.ns >= t.span_ns)
			return o;
		const double factor =
			o.ns > 0 ? 1.3 * static_cast<double>(t.span_ns) /
					   static_cast<double>(o.ns) :
				   16.0;
		n = std::max(n,
			     static_cast<std::int64_t>(static_cast<double>(n) *
						       std::min(factor, 16.0)) +
				     (factor > 1.0));
	}
}

/* The same for work whose time is that of the call: n times `each` operations. */
template <typename Work>
outcome timed(const trial &t, std::int64_t each, Work work)
{
	return grow(t, [&](std::int64_t n) {
		outcome o{};
		const std::int64_t begin = probe::now();
		o.sum = work(n, o.expected);
		o.ns = probe::now() - begin;
		o.operations = n * each;
		return o;
	});
}

/* A few instructions that no compiler leaves out. */
inline void spend(int rounds)
{
	for (; rounds; rounds--)
		__asm__ volatile("" : : "r"(rounds));
}

/* Bytes that are resident, and of page tables. */
inline std::int64_t memory()
{
	std::ifstream status("/proc/self/status");
	std::string word;
	std::int64_t kb = 0, sum = 0;

	while (status >> word)
		if ((word == "VmRSS:" || word == "VmPTE:") && status >> kb)
			sum += kb * 1024;
	return sum;
}

inline void report(const char *model, const std::string &version, outcome o)
{
	json_t *sample = probe::sample(model, version);

	json_object_set_new(sample, "wall_ns",
			    json_integer(std::max(o.ns, std::int64_t{ 1 })));
	json_object_set_new(sample, "operations", json_integer(o.operations));
	json_object_set_new(sample, "counter", json_integer(o.sum));
	json_object_set_new(sample, "expected", json_integer(o.expected));
	if (o.bytes >= 0)
		json_object_set_new(sample, "bytes", json_real(o.bytes));
	if (!o.late.empty()) {
		std::sort(o.late.begin(), o.late.end());
		const auto set = [&](const char *name, double share) {
			json_object_set_new(
				sample, name,
				json_integer(probe::quantile(o.late, share)));
		};
		set("late_p50_ns", 0.5);
		set("late_p99_ns", 0.99);
		set("late_max_ns", 1.0);
	}
	probe::end(sample);
}

#endif
