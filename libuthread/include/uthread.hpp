/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthread.hpp - user threads in C++, shaped like the standard's threads. C++17;
 * with C++20 the stop tokens are the standard's own. Headers only, over uthread.h.
 * Everything is in the namespace uthreads.
 *
 * The types of locks meet the standard's requirements, so std::lock_guard,
 * std::unique_lock, std::scoped_lock and std::shared_lock take them. What cannot be
 * done throws std::system_error. Every function that waits may be called from
 * plain threads, too, and lets other uthreads run meanwhile; what the standard
 * itself waits for (std::mutex, std::condition_variable_any, std::future) keeps a
 * worker.
 *
 * A uthread that is cancelled, or calls uthread_exit(), unwinds: destructors run.
 * `catch (...)` has to throw that on, as with pthreads. Waits in destructors are
 * no cancellation points.
 */
#ifndef UTHREAD_HPP
#define UTHREAD_HPP

#if __cplusplus < 201703L
#error "uthread.hpp needs C++17"
#endif

#include "uthread.h"
#include "uthread/channels.hpp"
#include "uthread/locks.hpp"
#include "uthread/scopes.hpp"
#include "uthread/stop.hpp"
#include "uthread/threads.hpp"

#endif /* UTHREAD_HPP */
