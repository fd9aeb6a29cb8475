/* SPDX-License-Identifier: Apache-2.0 */
/* io.h - probes of servers and the load on them: what main.c may call. */
#ifndef SWTCH_PROBE_IO_ROOM_H
#define SWTCH_PROBE_IO_ROOM_H

#include "models/models.h"

void probe_echo(json_t *trial);

#endif
