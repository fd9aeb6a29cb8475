/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.h - probes of threads that wait for others: what main.c may call. */
#ifndef SWTCH_PROBE_WAITING_H
#define SWTCH_PROBE_WAITING_H

#include "models/models.h"

void probe_locks(json_t *trial);
void probe_sync(json_t *trial);
void probe_queue(json_t *trial);
void probe_plain(json_t *trial);
void probe_wakeup(json_t *trial);
void probe_io(json_t *trial);

#endif
