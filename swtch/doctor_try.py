# SPDX-License-Identifier: Apache-2.0
"""What can only be known by trying: system calls this machine grants or refuses.

Invariants:

- Nothing outlives the try: memory is unmapped, descriptors are closed, and
  whatever changes the process itself (its scheduling policy) is tried in a
  child that does nothing else.
- *Not supported* and *not permitted* are told apart, because only the second
  can be mended by the user.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
from collections.abc import Callable
from typing import Any, Literal

from swtch.errors import CannotError, os_error_text

Answer = Literal["yes", "not permitted", "not supported"]

MADV_GUARD_INSTALL = 102  # Linux 6.13
AT_HWCAP2 = 26
HWCAP2_FSGSBASE = 1 << 1  # x86-64 only

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_PERF_TYPE = {"hardware": 0, "software": 1}
_PERF_ATTR_BYTES = 64  # PERF_ATTR_SIZE_VER0
_PERF_DISABLED_USER_ONLY = 1 << 0 | 1 << 5 | 1 << 6

_NOT_PERMITTED = (errno.EPERM, errno.EACCES)


def everything() -> dict[str, Any]:
    """All tries, by name."""
    return {
        "guard_install": guard_install(),
        "fsgsbase": fsgsbase(),
        "policy_batch": policy(os.SCHED_BATCH, 0),
        "policy_fifo": policy(os.SCHED_FIFO, 1),
        "perf_hardware": perf_counter("hardware"),
        "perf_software": perf_counter("software"),
    }


def guard_install() -> Answer:
    """Whether madvise() knows guard regions, which cost no VMA each."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with mmap.mmap(-1, 2 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        window = ctypes.c_char.from_buffer(area)
        failed = libc.madvise(ctypes.addressof(window), mmap.PAGESIZE, MADV_GUARD_INSTALL)
        reason = ctypes.get_errno()
        del window  # or the map could not be closed
    return _answer(reason if failed else 0)


def fsgsbase() -> Answer:
    """Whether user space may set its own TLS base cheaply."""
    if platform.machine() == "aarch64":
        return "yes"  # TPIDR_EL0 is always writable
    if platform.machine() != "x86_64":
        return "not supported"
    libc = ctypes.CDLL(None)
    libc.getauxval.argtypes = (ctypes.c_ulong,)
    libc.getauxval.restype = ctypes.c_ulong
    return "yes" if libc.getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE else "not supported"


def policy(number: int, priority: int) -> Answer:
    """Whether this user may run under scheduling policy `number`."""
    return _answer(_in_child(lambda: os.sched_setscheduler(0, number, os.sched_param(priority))))


def perf_counter(kind: Literal["hardware", "software"]) -> Answer:
    """Opens a counter on this process: cycles, or the CPU clock of the kernel."""
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return "not supported"
    attributes = struct.pack(
        "IIQQQQQ", _PERF_TYPE[kind], _PERF_ATTR_BYTES, 0, 0, 0, 0, _PERF_DISABLED_USER_ONLY
    ).ljust(_PERF_ATTR_BYTES, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(
        ctypes.c_long(number),
        ctypes.c_char_p(attributes),
        ctypes.c_int(0),
        ctypes.c_int(-1),
        ctypes.c_int(-1),
        ctypes.c_ulong(0),
    )
    if descriptor < 0:
        return _answer(ctypes.get_errno())
    os.close(descriptor)
    return "yes"


def _answer(reason: int) -> Answer:
    if reason == 0:
        return "yes"
    return "not permitted" if reason in _NOT_PERMITTED else "not supported"


def _in_child(attempt: Callable[[], object]) -> int:
    """The errno of `attempt` in a forked child, 0 if it succeeded."""
    try:
        child = os.fork()
    except OSError as error:
        raise CannotError(
            f"no process can be started: {os_error_text(error)}; see 'ulimit -u' and the limits"
            " of the control group."
        ) from None
    if child == 0:
        code = errno.EIO
        try:
            attempt()
            code = 0
        except OSError as error:
            code = error.errno or errno.EIO
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
