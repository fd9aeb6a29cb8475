/* SPDX-License-Identifier: Apache-2.0 */
/* switching.h - probes of threads that hand over: what main.c may call. */
#ifndef SWTCH_PROBE_SWITCHING_H
#define SWTCH_PROBE_SWITCHING_H

#include "models/models.h"

void probe_ring(json_t *trial);
void probe_token(json_t *trial);
void probe_pair(json_t *trial);
void probe_interrupt(json_t *trial);
void probe_calls(json_t *trial);

#endif
