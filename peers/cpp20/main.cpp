/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.cpp - the peer of C++20's stackless coroutines: a probe by the same protocol that
 * knows the trial `work`. A coroutine cannot wait within a call of a plain function, so
 * its work is a text of its own; how it is timed and told is that of ../cpp.
 */
#include "../cpp/work.hpp"
#include "spawn.hpp"
#include "wait.hpp"

#include <map>

namespace {

using piece = outcome (*)(const trial &);

const std::map<std::string, piece> pieces = {
	{ "yield", work::yield },	    { "create", work::create },
	{ "batch", work::batch },	    { "skynet", work::skynet },
	{ "fibonacci", work::fibonacci },   { "queens", work::queens },
	{ "increments", work::increments }, { "channel", work::channel },
	{ "condition", work::condition },   { "mutex", work::mutex },
	{ "contended", work::contended },   { "sleep", work::sleep },
	{ "requests", work::requests },	    { "parked", work::parked },
};

const char model[] = "cpp20";

} // namespace

int main()
{
	const std::string version =
		"coroutines of C++20, " + std::to_string(__cpp_impl_coroutine);
	json_t *json = probe::begin("swtch-probe-cpp20", version);

	probe::choice(json, "probe", { "work" });
	probe::choice(json, "model", { model });
	probe::choice(json, "policy", { "other" });
	const trial t = read_trial(json);
	const auto found = pieces.find(t.work);
	if (found == pieces.end())
		unmeasured(model, version, "it has no " + t.work.substr(0, 60));
	if (t.workers > 1)
		unmeasured(model, version, "it has one worker");
	report(model, version, found->second(t));
}
