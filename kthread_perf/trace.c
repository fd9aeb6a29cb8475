// SPDX-License-Identifier: GPL-2.0-only
/*
 * The events of trace.h, once.
 */
#include <linux/types.h>

#define CREATE_TRACE_POINTS
#include "trace.h"
