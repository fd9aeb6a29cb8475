/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.hpp - the probe protocol (docs/architecture.md) for every peer in C or C++:
 * a trial in, lines of JSON out, one clear line and exit status 2 for what is wrong.
 */
#ifndef PEERS_CPP_PROBE_HPP
#define PEERS_CPP_PROBE_HPP

#include <jansson.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <time.h>
#include <unistd.h>
#include <vector>

/* What the program was built with, as tools/peers.sh says it. */
#ifndef PEER_FLAGS
#define PEER_FLAGS ""
#endif

namespace probe {

inline void say(json_t *record)
{
	json_object_set_new(record, "schema", json_integer(1));
	json_dumpf(record, stdout, JSON_COMPACT);
	std::putchar('\n');
	std::fflush(stdout);
	json_decref(record);
}

[[noreturn]] inline void fail(const char *where, const std::string &what)
{
	say(json_pack("{s:s, s:i, s:s, s:s}", "kind", "error", "errno", EINVAL,
		      "where", where, "what", what.c_str()));
	/* Not exit(): threads may run, and destructors are theirs, too. */
	std::_Exit(2);
}

inline std::int64_t number(json_t *trial, const char *field, std::int64_t low,
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

inline std::string choice(json_t *trial, const char *field,
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

/* This process runs on the trial's CPUs from now on; there may be so many. */
inline std::vector<int> stay_on(json_t *trial, std::size_t most)
{
	json_t *list = json_object_get(trial, "cpus");
	const std::size_t n = json_array_size(list);
	std::vector<int> cpus;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (n < 1 || n > most)
		fail("cpus",
		     "cpus must name 1 to " + std::to_string(most) + " CPUs");
	for (std::size_t i = 0; i < n; i++) {
		json_t *cpu = json_array_get(list, i);
		const json_int_t which =
			json_is_integer(cpu) ? json_integer_value(cpu) : -1;
		if (which < 0 || which >= CPU_SETSIZE)
			fail("cpus", "cpus are numbers of CPUs");
		CPU_SET(static_cast<std::size_t>(which), &set);
		cpus.push_back(static_cast<int>(which));
	}
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("cpus", "those CPUs are not to be had");
	return cpus;
}

inline std::int64_t now()
{
	timespec t{};

	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<std::int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec;
}

/* The least of the sorted values that a share of them is not above. */
inline std::int64_t quantile(const std::vector<std::int64_t> &sorted,
			     double share)
{
	const auto rank = static_cast<std::size_t>(
		std::ceil(share * static_cast<double>(sorted.size())));

	return sorted[std::max<std::size_t>(rank, 1) - 1];
}

/* hello, and the trial from standard input. */
inline json_t *begin(const char *program, const std::string &version)
{
	json_error_t error;

	say(json_pack("{s:s, s:s, s:s, s:i}", "kind", "hello", "probe", program,
		      "version", version.c_str(), "pid",
		      static_cast<int>(getpid())));
	json_t *trial = json_loadf(stdin, 0, &error);
	if (!json_is_object(trial))
		fail("trial",
		     std::string("the trial is not JSON: ") + error.text);
	number(trial, "schema", 1, 1);
	return trial;
}

/* The sample, as far as every one has it; the caller adds what it measured. */
inline json_t *sample(const char *model, const std::string &version)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "kind", "sample", "model",
			 model, "version", version.c_str(), "built",
			 PEER_FLAGS);
}

/* The sample, the end, and out: the runtime may have threads that never end. */
[[noreturn]] inline void end(json_t *sample)
{
	say(sample);
	say(json_pack("{s:s, s:i}", "kind", "end", "samples", 1));
	std::_Exit(0);
}

} // namespace probe

#endif
