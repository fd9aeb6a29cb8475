// SPDX-License-Identifier: Apache-2.0
/*
 * web_page.hpp - one page over HTTP, fetched, and where its links lead. Plain
 * sequential code, as if the uthread had the machine for itself; one deadline for
 * all of a page, so a server that stands still costs a stack and nobody's time.
 */
#ifndef WEB_PAGE_HPP
#define WEB_PAGE_HPP

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <uthread.hpp>
#include <vector>

static constexpr std::size_t searched_max = 1 << 20; /* of a page, for links */
static constexpr int page_seconds = 10;

static std::runtime_error failed(const std::string &what,
				 const char *why = std::strerror(errno))
{
	return std::runtime_error(what + ": " + why);
}

/* Where it is, and the first page there. */
struct site {
	std::string host, path = "/";
	sockaddr_in address{};

	explicit site(std::string url)
	{
		std::string port = "80";
		addrinfo *list, hints{};

		if (url.rfind("http://", 0) || url.size() == 7)
			throw failed(url, "give http://HOST[:PORT][/PATH]");
		host = url.substr(7, url.find('/', 7) - 7);
		if (host.size() + 7 < url.size())
			path = url.substr(host.size() + 7);
		url = host.substr(0, host.find(':'));
		if (url.size() < host.size())
			port = host.substr(url.size() + 1);
		hints.ai_family = AF_INET;
		hints.ai_socktype = SOCK_STREAM;
		const int err = uthread_getaddrinfo(url.c_str(), port.c_str(),
						    &hints, &list);
		if (err)
			throw failed(host, gai_strerror(err));
		std::memcpy(&address, list->ai_addr, sizeof(address));
		freeaddrinfo(list);
	}
};

/* Closed when it goes, by a cancellation too. */
struct connection {
	const int fd;

	connection() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
	{
		if (fd < 0)
			throw failed("socket");
	}
	~connection()
	{
		close(fd);
	}
};

struct page {
	std::string path, from; /* from: the first page that links to it */
	int status = 0;
	std::size_t bytes = 0; /* of the body, */
	std::string text; /* and its beginning */
	std::string error; /* "": none */
};

static void fetch(const site &s, page &p)
{
	const std::string ask = "GET " + p.path +
				" HTTP/1.1\r\nHost: " + s.host +
				"\r\nConnection: close\r\n\r\n";
	const connection c;
	std::vector<char> buf(65536);
	std::size_t head;
	ssize_t n;
	timespec by;
	clock_gettime(CLOCK_MONOTONIC, &by);
	by.tv_sec += page_seconds;
	if (uthread_connect_timed(
		    c.fd, reinterpret_cast<const sockaddr *>(&s.address),
		    sizeof(s.address), &by) < 0)
		throw failed("connect");
	if (uthread_send_timed(c.fd, ask.data(), ask.size(), MSG_NOSIGNAL,
			       &by) < 0)
		throw failed("send");
	while ((n = uthread_recv_timed(c.fd, buf.data(), buf.size(), 0, &by)) >
	       0) {
		p.bytes += static_cast<std::size_t>(n);
		if (p.text.size() < searched_max)
			p.text.append(buf.data(), static_cast<std::size_t>(n));
	}
	if (n < 0)
		throw failed("recv");
	head = p.text.find("\r\n\r\n");
	if (head == p.text.npos ||
	    std::sscanf(p.text.c_str(), "HTTP/1.%*c %d", &p.status) != 1)
		throw std::runtime_error("no HTTP reply");
	p.bytes -= head + 4;
	if (const auto at = p.text.find("Content-Length: ");
	    at < head && p.bytes < std::strtoul(&p.text[at + 16], nullptr, 10))
		throw std::runtime_error("the reply ends early");
	p.text.erase(0, head + 4);
}

/* "/a/./b/../c": "/a/c" */
static std::string without_dots(const std::string &path)
{
	std::string done;
	bool dots = false; /* at the end: a folder */

	for (std::size_t at = 0, end; at < path.size(); at = end) {
		end = std::min(path.find('/', at + 1), path.size());
		const std::string part = path.substr(at, end - at);

		dots = part == "/.." || part == "/.";
		if (part == "/..")
			done.resize(std::min(done.rfind('/'), done.size()));
		else if (!dots)
			done += part;
	}
	return dots || done.empty() ? done + "/" : done;
}

/* Where a link of p leads on its site; "": to another. */
static std::string target(const site &s, const page &p, std::string link)
{
	const std::string self = "http://" + s.host + "/";
	std::string path, query;

	link = link.substr(0, link.find('#'));
	if (!link.rfind(self, 0))
		link.erase(0, self.size() - 1);
	if (link.empty() || !link.rfind("//", 0) ||
	    link.find(':') < link.find_first_of("/?"))
		return "";
	path = link.substr(0, link.find('?'));
	query = link.substr(path.size());
	link = p.path.substr(0, p.path.find('?'));
	if (path.empty())
		path = link;
	else if (path[0] != '/')
		path = link.substr(0, link.rfind('/') + 1) + path;
	link.clear();
	for (const char c : without_dots(path) + query) {
		char code[4]; /* nothing gets into a request but a path */

		std::snprintf(code, sizeof(code), "%%%02X",
			      static_cast<unsigned>(c) & 0xff);
		link += c > ' ' && c < 127 ? std::string(1, c) : code;
	}
	return link;
}

/* f(path) for each link to this site, if it looks like a page of HTML. */
template <class F> static void for_each_link(const site &s, const page &p, F f)
{
	const std::string name = p.path.substr(0, p.path.find('?'));
	if (p.status != 200 || !p.error.empty() ||
	    (name.back() != '/' && name.find(".htm") == name.npos))
		return;
	for (const std::string key : { "href=", "src=" }) {
		auto at = p.text.find(key);

		for (; at != p.text.npos; at = p.text.find(key, at)) {
			const char quote = p.text[at += key.size()];
			const auto end = p.text.find(quote, ++at);

			if ((quote != '"' && quote != '\'') ||
			    end > p.text.size())
				continue;
			const std::string path =
				target(s, p, p.text.substr(at, end - at));

			if (!path.empty())
				f(path);
			at = end;
		}
	}
}

#endif
