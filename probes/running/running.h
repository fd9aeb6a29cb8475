/* SPDX-License-Identifier: Apache-2.0 */
/* running.h - probes of threads that compute: what main.c may call. */
#ifndef SWTCH_PROBE_RUNNING_H
#define SWTCH_PROBE_RUNNING_H

#include "models/models.h"

void probe_scenario(json_t *trial);
void probe_gantt(json_t *trial);
void probe_scaling(json_t *trial);
void probe_starvation(json_t *trial);
void probe_preemption(json_t *trial);
void probe_floor(json_t *trial);

#endif
