/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_reset.c - who asks for more of a connection than comes before it is reset has that
 * part, and the next call the error: whether the reset finds it waiting or is there before
 * it has ever asked.
 */
#include <sys/socket.h>
#include <sys/uio.h>

#include "check.h"
#include "tcp_pair.h"

static int pair[2];

static void reset(void)
{
	const struct linger at_once = { .l_onoff = 1 };

	IS(setsockopt(pair[1], SOL_SOCKET, SO_LINGER, &at_once,
		      sizeof(at_once)),
	   0);
	close(pair[1]);
}

static void *asks_for_more(void *arg)
{
	const int *by_message = arg;
	char to[8];
	struct iovec v[] = { { to, 1 }, { to + 1, sizeof(to) - 1 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	IS(*by_message ? recvmsg(pair[0], &m, MSG_WAITALL) :
			 recv(pair[0], to, sizeof(to), MSG_WAITALL),
	   3);
	IS(memcmp(to, "abc", 3), 0);
	IS(recv(pair[0], to, sizeof(to), 0), -1);
	IS(errno, ECONNRESET);
	return NULL;
}

int main(void)
{
	int by_message;
	pthread_t t;

	for (by_message = 0; by_message < 2; by_message++) {
		tcp_pair(pair);
		IS(send(pair[1], "abc", 3, 0), 3);
		reset();
		IS(pthread_join(start(asks_for_more, &by_message), NULL), 0);
		close(pair[0]);
		tcp_pair(pair);
		t = start(asks_for_more, &by_message);
		IS(send(pair[1], "abc", 3, 0), 3);
		usleep(20000); /* it has that, and waits */
		reset();
		IS(pthread_join(t, NULL), 0);
		close(pair[0]);
	}
	return 0;
}
