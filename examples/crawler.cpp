// SPDX-License-Identifier: Apache-2.0
/*
 * crawler URL [CONNECTIONS]: fetch a page, all pages of that site that it links to,
 * those they link to, and so on. A line for each; at the end, how many are broken.
 *
 * - A uthread a page: it waits for its turn, fetches (web_page.hpp), and starts one for
 *   each page that is new. Nobody manages a list of work.
 * - All are children of one scope, which can be left when all pages are in. There is no
 *   count of what is still on its way, which is what crawlers get wrong.
 * - A channel with room for CONNECTIONS (16) bounds how many are connected, not how many
 *   there are: ten thousand links are ten thousand uthreads, most of which wait.
 * - Results go through a channel to who prints, and it is closed behind the scope. With
 *   little room in it a slow terminal slows the crawling, and fills no memory.
 */
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <uthread.hpp>

#include "web_page.hpp"

static constexpr std::size_t pages_max = 100000;

class crawl {
public:
	crawl(const site &s, std::size_t connections)
		: site_(s), places_(connections)
	{
	}
	/* The pages, in the order in which they come in. */
	uthreads::channel<page> pages{ 64 };

	/* To the end of all. */
	void run()
	{
		const closer behind{ pages };
		uthreads::scope all;

		visit(all, site_.path, "");
		all.join();
	}
	bool cut_short()
	{
		return seen_.size() >= pages_max;
	}

private:
	struct closer {
		uthreads::channel<page> &pages;

		~closer()
		{
			pages.close();
		}
	};

	bool is_new(const std::string &path)
	{
		const std::lock_guard<uthreads::mutex> lock(mutex_);

		return seen_.size() < pages_max && seen_.insert(path).second;
	}
	void visit(uthreads::scope &all, const std::string &path,
		   const std::string &from)
	{
		if (is_new(path))
			all.spawn([=, &all] { work(all, path, from); });
	}
	void work(uthreads::scope &all, const std::string &path,
		  const std::string &from)
	{
		page p;

		p.path = path;
		p.from = from;
		places_.send('x');
		try {
			fetch(site_, p);
		} catch (const std::exception &e) {
			p.error = e.what();
		}
		places_.recv();
		for_each_link(site_, p, [&](const std::string &link) {
			visit(all, link, path);
		});
		p.text.clear();
		pages.send(std::move(p));
	}

	const site &site_;
	uthreads::channel<char> places_;
	uthreads::mutex mutex_; /* guards seen_ */
	std::set<std::string> seen_;
};

/* How many are broken. */
static int print_all(uthreads::channel<page> &pages)
{
	unsigned long long bytes = 0;
	int count = 0, broken = 0;

	for (const page &p : pages) {
		const bool bad = p.status >= 400 || !p.error.empty();

		std::printf("%3d %9zu %s", p.status, p.bytes, p.path.c_str());
		if (!p.error.empty())
			std::printf(": %s", p.error.c_str());
		if (bad && !p.from.empty())
			std::printf(" (linked from %s)", p.from.c_str());
		std::putchar('\n');
		count++;
		broken += bad;
		bytes += p.bytes;
	}
	std::printf("%d pages, %llu bytes, %d broken\n", count, bytes, broken);
	return broken;
}

int main(int argc, char **argv)
{
	const int connections = argc == 3 ? std::atoi(argv[2]) : 16;

	if (argc < 2 || argc > 3 || connections < 1 || connections > 10000) {
		std::fputs("usage: crawler URL [CONNECTIONS, 1 to 10000]\n",
			   stderr);
		return 2;
	}
	try {
		const site s(argv[1]);
		crawl c(s, static_cast<std::size_t>(connections));
		uthreads::jthread spider([&] { c.run(); });
		const int broken = print_all(c.pages);

		spider.join(); /* throws what ended it */
		if (c.cut_short())
			std::fprintf(stderr,
				     "crawler: stopped after %zu pages\n",
				     pages_max);
		if (std::fflush(stdout) || std::ferror(stdout))
			throw std::runtime_error("standard output: no room");
		return broken ? 1 : 0;
	} catch (const std::exception &e) {
		std::fprintf(stderr, "crawler: %s\n", e.what());
		return 1;
	}
}
