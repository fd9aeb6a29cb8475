/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_pair.h - both ends of a connection, by loopback. */
#ifndef PRELOAD_TCP_PAIR_H
#define PRELOAD_TCP_PAIR_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "check.h"

static inline void tcp_pair(int sv[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t room = sizeof(at);
	const int l = socket(AF_INET, SOCK_STREAM, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	IS(bind(l, (struct sockaddr *)&at, room), 0);
	IS(listen(l, 1), 0);
	IS(getsockname(l, (struct sockaddr *)&at, &room), 0);
	sv[0] = socket(AF_INET, SOCK_STREAM, 0);
	IS(connect(sv[0], (struct sockaddr *)&at, room), 0);
	sv[1] = accept(l, NULL, NULL);
	close(l);
}

#endif
