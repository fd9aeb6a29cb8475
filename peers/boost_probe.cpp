/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boost_probe.cpp - the Boost.Fiber peer: a probe by the same protocol that knows
 * the trial `ring`. Two fibers on one CPU hand over to one another, by yielding or
 * through an unbuffered channel. As in probes/switching/ring.c a batch of laps is timed as a
 * whole and the first is warm-up. The scheduler is its default, round robin.
 */
#include <boost/fiber/all.hpp>
#include <boost/version.hpp>

#include <jansson.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <string>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

namespace bf = boost::fibers;

void say(json_t *record)
{
	json_object_set_new(record, "schema", json_integer(1));
	json_dumpf(record, stdout, JSON_COMPACT);
	std::putchar('\n');
	std::fflush(stdout);
	json_decref(record);
}

[[noreturn]] void fail(const char *where, const std::string &what)
{
	say(json_pack("{s:s, s:i, s:s, s:s}", "kind", "error", "errno", 22,
		      "where", where, "what", what.c_str()));
	std::exit(2);
}

std::int64_t number(json_t *trial, const char *field, std::int64_t low,
		    std::int64_t high)
{
	json_t *value = json_object_get(trial, field);

	if (!json_is_integer(value) || json_integer_value(value) < low ||
	    json_integer_value(value) > high)
		fail(field, std::string(field) + " is not a number from " +
				    std::to_string(low) + " to " +
				    std::to_string(high));
	return json_integer_value(value);
}

std::string choice(json_t *trial, const char *field,
		   const std::vector<std::string> &known)
{
	json_t *value = json_object_get(trial, field);
	std::string text = json_is_string(value) ? json_string_value(value) :
						   "";
	std::string list;

	if (std::find(known.begin(), known.end(), text) != known.end())
		return text;
	for (const auto &one : known)
		list += (list.empty() ? "" : ", ") + one;
	fail(field, std::string("unknown ") + field + "; one of " + list);
}

void stay_on(json_t *trial)
{
	json_t *cpus = json_object_get(trial, "cpus");
	cpu_set_t set;

	CPU_ZERO(&set);
	if (json_array_size(cpus) != 1 ||
	    !json_is_integer(json_array_get(cpus, 0)))
		fail("cpus", "cpus must name one CPU");
	CPU_SET(static_cast<std::size_t>(
			json_integer_value(json_array_get(cpus, 0))),
		&set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("cpus", "that CPU is not to be had");
}

std::int64_t now()
{
	timespec t{};

	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<std::int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

/* Calls lap so often for each batch; what the batches took. */
template <typename Lap>
std::vector<std::int64_t> timed(std::int64_t batches, std::int64_t laps,
				Lap lap)
{
	std::vector<std::int64_t> took;
	std::int64_t begin = now();

	took.reserve(static_cast<std::size_t>(batches));
	for (std::int64_t batch = 0; batch <= batches; batch++) {
		for (std::int64_t i = 0; i < laps; i++)
			lap();
		const std::int64_t end = now();
		if (batch)
			took.push_back(end - begin);
		begin = end;
	}
	return took;
}

std::vector<std::int64_t> by_yield(std::int64_t batches, std::int64_t laps)
{
	std::vector<std::int64_t> took;
	bf::fiber other([&] {
		for (std::int64_t i = 0; i < (batches + 1) * laps; i++)
			boost::this_fiber::yield();
	});
	bf::fiber own([&] {
		took = timed(batches, laps, [] { boost::this_fiber::yield(); });
	});

	own.join();
	other.join();
	return took;
}

std::vector<std::int64_t> by_channel(std::int64_t batches, std::int64_t laps)
{
	bf::unbuffered_channel<int> there, back;
	std::vector<std::int64_t> took;
	bf::fiber other([&] {
		for (int token : there)
			back.push(token);
	});
	bf::fiber own([&] {
		took = timed(batches, laps, [&] {
			there.push(1);
			back.value_pop();
		});
		there.close();
	});

	own.join();
	other.join();
	return took;
}

} // namespace

int main()
{
	json_error_t error;

	say(json_pack("{s:s, s:s, s:s, s:i}", "kind", "hello", "probe",
		      "swtch-probe-boost", "version", BOOST_LIB_VERSION, "pid",
		      static_cast<int>(getpid())));
	json_t *trial = json_loadf(stdin, 0, &error);
	if (!json_is_object(trial))
		fail("trial",
		     std::string("the trial is not JSON: ") + error.text);
	number(trial, "schema", 1, 1);
	choice(trial, "probe", { "ring" });
	choice(trial, "model", { "boost" });
	choice(trial, "policy", { "other" });
	const std::string by = choice(trial, "by", { "yield", "channel" });
	number(trial, "members", 2, 2);
	const std::int64_t batches = number(trial, "batches", 1, 100000);
	const std::int64_t laps = number(trial, "laps", 1, 10000000);
	stay_on(trial);
	auto took = by == "yield" ? by_yield(batches, laps) :
				    by_channel(batches, laps);
	json_t *sample = json_object();
	std::int64_t wall = 0;
	for (const std::int64_t ns : took)
		wall += ns;
	std::sort(took.begin(), took.end());
	const auto each = [&](double share) {
		const auto rank = static_cast<std::size_t>(
			std::ceil(share * static_cast<double>(took.size())));
		return json_real(
			static_cast<double>(
				took[std::max<std::size_t>(rank, 1) - 1]) /
			static_cast<double>(2 * laps));
	};
	json_object_set_new(sample, "kind", json_string("sample"));
	json_object_set_new(sample, "model", json_string("boost"));
	json_object_set_new(sample, "wall_ns", json_integer(wall));
	json_object_set_new(sample, "passes",
			    json_integer(2 * laps * (batches + 1)));
	json_object_set_new(sample, "each_p10_ns", each(0.1));
	json_object_set_new(sample, "each_p50_ns", each(0.5));
	json_object_set_new(sample, "each_p90_ns", each(0.9));
	json_object_set_new(sample, "each_p99_ns", each(0.99));
	json_object_set_new(sample, "version", json_string(BOOST_LIB_VERSION));
	say(sample);
	say(json_pack("{s:s, s:i}", "kind", "end", "samples", 1));
	json_decref(trial);
	return 0;
}
