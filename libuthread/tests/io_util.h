/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_util.h - what the tests of descriptors say often.
 */
#ifndef UTHREAD_TEST_IO_UTIL_H
#define UTHREAD_TEST_IO_UTIL_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "util.h"

#define BIG (1 << 20)

/* As the kernel says no. */
#define SAYS(call, err)                        \
	do {                                   \
		CHECK_EQ((long)(call), -1);    \
		CHECK_EQ(test_errno(), (err)); \
	} while (0)

/* Called by a uthread, and without ticks others have to run meanwhile. */
static inline void all_parked(uint64_t then, uint64_t n)
{
	while (parks() < then + n)
		uthread_yield();
}

static inline void local_pair(int sv[2])
{
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
}

static inline int tcp_listener(struct sockaddr_in *at)
{
	int s = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t room = sizeof(*at);

	memset(at, 0, sizeof(*at));
	at->sin_family = AF_INET;
	at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(s >= 0);
	CHECK(!bind(s, (struct sockaddr *)at, sizeof(*at)));
	CHECK(!listen(s, 128));
	CHECK(!getsockname(s, (struct sockaddr *)at, &room));
	return s;
}

static inline void tcp_pair(int sv[2])
{
	struct sockaddr_in at;
	int l = tcp_listener(&at);

	sv[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(!connect(sv[0], (struct sockaddr *)&at, sizeof(at)));
	sv[1] = accept(l, NULL, NULL);
	CHECK(sv[1] >= 0);
	close(l);
}

#endif
