/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.h - what is to be known of a connection before it is asked for more (tcp.c).
 * All change errno. */
#ifndef UTHREAD_BASE_TCP_H
#define UTHREAD_BASE_TCP_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

bool tcp_is(int fd);
/* There is an error that the next call is told; `reads`: and nothing before it.
 * False, too, of what is no TCP socket. */
bool tcp_has_failed(int fd, bool reads);

#pragma GCC visibility pop

#endif
