# SPDX-License-Identifier: Apache-2.0
"""uthreads in gdb, of a live process and of a core file.

Commands: `info uthreads` and `uthread` (their help, uthread-gdb(7)). gdb loads this file
with the library.

Where things lie is told by the library itself (uthread_debug, in thread/debug.c), so no
debug information of it is needed. A uthread that runs is where its worker is, a thread
that gdb knows. Of one that is parked its stack has the registers, and gdb shows stacks of
threads only: so an unwinder of ours says, of the innermost frame of the thread that is
selected, that the parked uthread has called it, and a filter leaves that frame out.
Nothing in the process is written, no register set, nothing called; a core file is as good.

Rejected: setting the thread's registers for the time of a backtrace (none can be set in a
core file, and a gdb that dies meanwhile leaves the process with them); `frame view`
(takes a stack and an address, the other registers stay the thread's).
"""

from __future__ import annotations

import bisect
import contextlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import gdb
import gdb.unwinder

VERSION = 1
STACKS_OF_ONE = 3
HANDLER_DEPTH = 32  # frames, of a handler of the runtime's
STOPPED = "the program is not running, and there is no core file"

# ---- memory ----


def memory(address: int, size: int) -> bytes:
    return bytes(gdb.selected_inferior().read_memory(address, size))


def number(data: bytes, offset: int, size: int = 8) -> int:
    return int.from_bytes(data[offset : offset + size], "little")


def text(data: bytes) -> str:
    """Up to its NUL, and nothing that a terminal obeys."""
    raw = data.split(b"\0", 1)[0].decode("ascii", "replace")
    return "".join(c if c.isprintable() else "?" for c in raw)


# ---- what the library says of itself ----


class Layout:
    """The table uthread_debug."""

    def __init__(self) -> None:
        try:
            address = int(gdb.parse_and_eval("(unsigned long)&uthread_debug"))
        except gdb.error:
            raise gdb.GdbError("no libuthread in this program, or an older one") from None
        try:
            version, size, entries = struct.unpack("<IIQ", memory(address, 16))
            self.values: dict[str, int] = {}
            while version == VERSION:
                entry = memory(entries, size)
                name = text(entry[: size - 8])
                if not name:
                    break
                self.values[name] = number(entry, size - 8)
                entries += size
        except gdb.MemoryError:
            raise gdb.GdbError(STOPPED) from None
        if version != VERSION:
            raise gdb.GdbError(f"this libuthread's table is of version {version}, not {VERSION}")

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    def word(self, kind: str, value: int) -> str:
        """What the library calls that value."""
        for name, known in self.values.items():
            if name.startswith(kind + ".") and known == value:
                return name.removeprefix(kind + ".")
        return ""

    def pointer(self, address: int) -> int:
        return number(memory(address, 8), 0)


# ---- registers of who is parked (base/arch/*/switch.S) ----


@dataclass(frozen=True)
class Arch:
    pc: str
    sp: str
    saved: dict[str, int]  # register -> offset from the saved stack pointer
    frame_bytes: int  # from there to the stack pointer of who called


X86_64 = Arch(
    "rip",
    "rsp",
    {"r12": 8, "r13": 16, "r14": 24, "r15": 32, "rbx": 40, "rbp": 48, "rip": 56},
    64,
)
AARCH64 = Arch("pc", "sp", {f"x{19 + i}": 8 * i for i in range(12)} | {"pc": 88}, 176)
# In preempt_frame's copy of the kernel's frame: behind siginfo, in a ucontext.
_MCONTEXT = 128 + 176
AARCH64_COPY = {f"x{i}": _MCONTEXT + 8 + 8 * i for i in range(31)}
AARCH64_COPY |= {"sp": _MCONTEXT + 256, "pc": _MCONTEXT + 264}


def arch() -> Arch:
    name = gdb.newest_frame().architecture().name()
    if name.startswith("i386:x86-64"):
        return X86_64
    if name.startswith("aarch64"):
        return AARCH64
    raise gdb.GdbError(f"uthreads of {name} are not known here")


Registers = dict[str, int]


# ---- uthreads ----


@dataclass
class Lwp:
    """A thread that gdb knows."""

    thread: Any
    tid: int
    sp: int

    def interrupted(self) -> int:
        """Where its stack was when a signal came, if it is in a handler: that of the
        tick is on the worker's alternate stack."""
        with Place(), contextlib.suppress(gdb.error):
            self.thread.switch()
            frame = gdb.newest_frame()
            for _ in range(HANDLER_DEPTH):
                handler, frame = frame, frame and frame.older()
                if frame and handler.type() == gdb.SIGTRAMP_FRAME:
                    return int(frame.read_register(arch().sp))
        return 0


def lwps() -> list[Lwp]:
    """All that are stopped."""
    found = []
    with Place():
        for thread in gdb.selected_inferior().threads():
            with contextlib.suppress(gdb.error):
                thread.switch()
                sp = int(gdb.newest_frame().read_register(arch().sp))
                found.append(Lwp(thread, thread.ptid[1] or thread.ptid[2], sp))
    return found


class Uthread:
    def __init__(self, layout: Layout, address: int) -> None:
        self.layout = layout
        self.address = address
        self.data = memory(address, layout["sizeof.uthread"])
        self.id = self.word("id", 4)
        self.name = text(self.data[layout["uthread.name"] :][: layout["uthread.name_bytes"]])
        self.state = layout.word("state", self.word("state", 4)) or "?"
        self.lwp: Lwp | None = None  # None: parked

    def word(self, name: str, size: int = 8) -> int:
        return number(self.data, self.layout["uthread." + name], size)

    def stacks(self) -> Iterator[tuple[int, int]]:
        """The first address and the last: its own, a coroutine's, a handler's."""
        yield self.word("stack_low"), self.word("stack_top")
        for low, size in ("on_low", "on_bytes"), ("alt.ss_sp", "alt.ss_size"):
            yield self.word(low), self.word(low) + self.word(size)

    def says(self) -> str:
        """What it does, as uthread_dump() has it."""
        layout = self.layout
        if self.state in ("running", "forking"):
            with contextlib.suppress(gdb.MemoryError):
                address = self.word("worker")
                kind = number(memory(address + layout["worker.kind"], 4), 0, 4)
                which = number(memory(address + layout["worker.number"], 4), 0, 4)
                return f"{self.state} on {layout.word('kind', kind)} {which}"
        waits = self.word("waits")
        if self.state != "waiting" or not waits:
            return self.state
        try:
            waiter = memory(waits, layout["sizeof.waiter"])
        except gdb.MemoryError:
            return self.state
        kind = layout.word("waits", number(waiter, layout["waiter.kind"], 4))
        on = number(waiter, layout["waiter.on"])
        what = f" for {kind}" if kind else ""
        if kind == "descriptor":
            what += f" {on}"
        elif kind == "join":
            with contextlib.suppress(gdb.MemoryError):
                what += f" of {number(memory(on + layout['uthread.id'], 4), 0, 4)}"
        elif kind and on:
            what += f" {on:#x}"
        return "waiting" + what + (", timed" if waiter[layout["waiter.timed"]] else "")

    def registers(self) -> Registers:
        """While it is parked."""
        a, sp = arch(), self.word("ctx.sp")
        saved = memory(sp, a.frame_bytes)
        registers = {name: number(saved, offset) for name, offset in a.saved.items()}
        if registers[a.pc] == self.layout["&context_entry"]:
            registers[a.pc] += 1  # not behind a call, as unwinders take it
        registers[a.sp] = sp + a.frame_bytes
        return registers

    def has_not_begun(self) -> bool:
        return self.registers()[arch().pc] == self.layout["&context_entry"] + 1


class Runtime:
    """The process as it is now."""

    def __init__(self) -> None:
        if not gdb.selected_thread():
            raise gdb.GdbError(STOPPED)
        view.off()
        self.layout = Layout()
        self.uthreads: list[Uthread] = []
        self.unreadable = 0  # as in a core file of gcore's, which has zeroes for them
        for address in self.addresses():
            try:
                ut = Uthread(self.layout, address)
            except gdb.MemoryError:
                self.unreadable += 1
                continue
            if ut.state != "free":
                self.uthreads.append(ut)
            elif address != self.layout["&main_uthread"] and not ut.word("stack_top"):
                self.unreadable += 1
        self.find_lwps()

    def addresses(self) -> Iterator[int]:
        """As stack_each(), from the first on."""
        at = self.layout
        yield at["&main_uthread"]
        slabs = []
        slab = at.pointer(at["&slabs"])
        while slab:
            slabs.append(slab)
            slab = at.pointer(slab + at["slab.next"])
        for slab in reversed(slabs):
            base = at.pointer(slab + at["slab.base"])
            shift = number(memory(slab + at["slab.class"], 4), 0, 4)
            for i in range(number(memory(slab + at["slab.carved"], 4), 0, 4)):
                end = base + (i + 1 << shift)
                end -= i % at["slab.colours"] * at["slab.colour_bytes"] + at["sizeof.uthread"]
                yield end & ~(at["slab.colour_bytes"] - 1)

    def workers(self) -> Iterator[tuple[int, int]]:
        """The kernel's number of each, and the uthread that it runs."""
        at = self.layout
        count = number(memory(at["&rt"] + at["runtime.existing"], 4), 0, 4)
        array = at.pointer(at["&rt"] + at["runtime.workers"])
        for i in range(count):
            worker = at.pointer(array + 8 * i)
            tid = number(memory(worker + at["worker.tid"], 4), 0, 4)
            yield tid, at.pointer(worker + at["worker.running"])

    def find_lwps(self) -> None:
        """Who runs is where its stack is in use, or was when a signal came; what its state
        says is true a little before and after. Only where that says nothing the worker
        is asked, as of one whose handler cannot be unwound."""
        left = {lwp.tid: lwp for lwp in lwps()}
        stacks = sorted(
            (low, high, i) for i, ut in enumerate(self.uthreads) for low, high in ut.stacks()
        )
        for sp_of in (lambda lwp: lwp.sp), Lwp.interrupted:
            for lwp in list(left.values()):
                sp = sp_of(lwp)
                end = bisect.bisect(stacks, (sp,))
                # One may lie within another.
                for low, high, i in stacks[max(0, end - STACKS_OF_ONE) : end]:
                    if low < sp <= high and not self.uthreads[i].lwp:
                        self.uthreads[i].lwp = left.pop(lwp.tid)
                        break
        runs = {address: tid for tid, address in self.workers() if address}
        for ut in self.uthreads:
            if not ut.lwp and ut.state in ("running", "forking"):
                ut.lwp = left.get(runs.get(ut.address, 0))

    def find(self, which: str) -> Uthread:
        named = [ut for ut in self.uthreads if which in (str(ut.id), ut.name)]
        if not named:
            raise gdb.GdbError(f"no uthread {which}")
        if len(named) > 1:
            raise gdb.GdbError(f"{which} is the name of {len(named)}: say its number")
        return named[0]

    def chosen(self, words: Iterable[str]) -> list[Uthread]:
        return [self.find(word) for word in words]


# ---- a parked uthread's stack in place of a thread's ----


class FrameId:
    def __init__(self, sp: int, pc: int) -> None:
        kind = gdb.lookup_type("unsigned long")
        self.sp = gdb.Value(sp).cast(kind)
        self.pc = gdb.Value(pc).cast(kind)


class View(gdb.unwinder.Unwinder):
    """While it is on, the thread's innermost frame has the uthread as its caller."""

    def __init__(self) -> None:
        super().__init__("uthread")
        self.of: int | None = None  # whose stack: the address of a struct uthread
        self.registers: Registers = {}
        self.thread: Any = None  # the thread that is shown so,
        self.at = (0, 0)  # its own pc and sp,
        self.level = 0  # and its frame that is not the uthread's

    def on(self, ut: Uthread) -> None:
        self.off()
        a, frame = arch(), gdb.newest_frame()
        self.registers = ut.registers()
        self.thread = gdb.selected_thread().ptid
        self.at = int(frame.read_register(a.pc)), int(frame.read_register(a.sp))
        self.level = 0
        self.of = ut.address
        gdb.frame_filters["uthread"] = LeaveOut()
        gdb.invalidate_cached_frames()

    def off(self) -> None:
        if self.of is not None:
            self.forget()
            gdb.invalidate_cached_frames()

    def forget(self, *_event: object) -> None:
        """The program goes on: gdb itself drops its frames."""
        self.of = None
        gdb.frame_filters.pop("uthread", None)

    def is_here(self) -> bool:
        thread = gdb.selected_thread()
        return self.of is not None and thread is not None and thread.ptid == self.thread

    def __call__(self, pending: Any) -> Any:
        if self.is_here():
            a = X86_64 if "rip" in self.registers else AARCH64
            pc, sp = int(pending.read_register(a.pc)), int(pending.read_register(a.sp))
            if (pc, sp) == self.at:
                self.level = pending.level()
                # Inner to what follows, or gdb takes the stack for corrupt.
                below = self.registers[a.sp] - a.frame_bytes
                return unwound(pending, FrameId(below, pc), self.registers)
        return self.frame_of_tick(pending)

    @staticmethod
    def frame_of_tick(pending: Any) -> Any:
        """preempt_frame (preempt.S), where CFI cannot say where it came from."""
        if not pending.architecture().name().startswith("aarch64"):
            return None
        with contextlib.suppress(gdb.error, gdb.GdbError, KeyError):
            layout, pc = Layout(), int(pending.read_register(AARCH64.pc))
            if layout["&preempt_frame"] <= pc < layout["&preempt_frame_end"]:
                # In its first two instructions where the stack pointer is, too.
                begun = pc >= layout["&preempt_frame"] + 8
                copy = int(pending.read_register("x19" if begun else "sp"))
                data = memory(copy, _MCONTEXT + 272)
                registers = {name: number(data, at) for name, at in AARCH64_COPY.items()}
                return unwound(pending, FrameId(copy, pc), registers)
        return None


def unwound(pending: Any, frame_id: FrameId, registers: Registers) -> Any:
    kind = gdb.lookup_type("unsigned long")
    info = pending.create_unwind_info(frame_id)
    for name, value in registers.items():
        info.add_saved_register(name, gdb.Value(value).cast(kind))
    return info


class LeaveOut:
    """A frame filter: not the thread's own frame."""

    name = "uthread"
    enabled = True
    priority = 1000  # before others see it

    def filter(self, frames: Iterable[Any]) -> Iterable[Any]:
        for frame in frames:
            if not view.is_here() or frame.inferior_frame().level() > view.level:
                yield frame


class Place:
    """Afterwards thread, stack and frame are what they were."""

    def __enter__(self) -> None:
        self.thread = gdb.selected_thread()
        self.view = (view.of, view.registers, view.thread, view.at) if view.of else None
        self.level = None
        with contextlib.suppress(gdb.error):
            self.level = gdb.selected_frame().level()

    def __exit__(self, *_error: object) -> None:
        if not self.thread or not self.thread.is_valid():
            return
        with contextlib.suppress(gdb.error):
            view.off()
            self.thread.switch()
            if self.view:
                view.of, view.registers, view.thread, view.at = self.view
                gdb.frame_filters["uthread"] = LeaveOut()
                gdb.invalidate_cached_frames()
            frame = gdb.newest_frame()
            while frame and self.level and frame.level() < self.level:
                frame = frame.older()
            if frame:
                frame.select()


def innermost() -> Any:
    """The uthread's own."""
    frame = gdb.newest_frame()
    while view.is_here() and frame.level() <= view.level:
        frame = frame.older()
        if not frame:
            raise gdb.GdbError("its stack cannot be read")
    return frame


def go_to(ut: Uthread) -> Any:
    """The thread that runs it, or its stack where the thread is that is selected."""
    if ut.lwp:
        view.off()
        ut.lwp.thread.switch()
    else:
        view.on(ut)
    frame = innermost()
    frame.select()
    return frame


# ---- commands ----


def first_word(argument: str) -> tuple[str, str]:
    """And the rest. A name may have spaces, in quotes."""
    found = re.match(r"""("[^"]*"|'[^']*'|\S+)\s*(.*)""", argument.strip(), re.DOTALL)
    if not found:
        return "", ""
    word = found[1]
    return (word[1:-1] if word[0] in "\"'" and word[-1] == word[0] else word), found[2]


def where(layout: Layout, frame: Any) -> str:
    """The innermost function that is not the runtime's."""
    begin, end = layout["&text_begin"], layout["&text_end"]
    library, first = gdb.solib_name(begin), frame
    while frame and (
        begin <= frame.pc() <= end
        or (library and gdb.solib_name(frame.pc()) == library)
        or frame.type() == gdb.SIGTRAMP_FRAME
    ):
        frame = frame.older()
    frame = frame or first
    line = frame.find_sal()
    place = f" at {line.symtab.filename}:{line.line}" if line.symtab else ""
    return f"{frame.name() or hex(frame.pc())} (){place}"


def entry(ut: Uthread) -> str:
    block = gdb.execute(f"info symbol {ut.word('fn'):#x}", to_string=True)
    name = block.split(" in section")[0].strip()
    return f"{name} (), not begun" if block else "not begun"


def selected(runtime: Runtime, of: int | None) -> Uthread | None:
    thread = gdb.selected_thread()
    for ut in runtime.uthreads:
        if of is not None and ut.address == of:
            return ut
        if of is None and ut.lwp and thread and ut.lwp.thread.ptid == thread.ptid:
            return ut
    return None


def shown() -> int | None:
    """Whose stack is shown; before a Runtime, which ends that."""
    return view.of if view.is_here() else None


class InfoUthreads(gdb.Command):
    """List uthreads: number, name, state, and the innermost function that is not the runtime's.

    info uthreads [WHICH...]

    WHICH is a number or a name. The one that is selected has a star."""

    def __init__(self) -> None:
        super().__init__("info uthreads", gdb.COMMAND_STATUS)

    def invoke(self, argument: str, _from_tty: bool) -> None:
        self.dont_repeat()
        of = shown()
        with Place():
            runtime = Runtime()
            words = gdb.string_to_argv(argument)
            chosen = runtime.chosen(words) if words else runtime.uthreads
            if runtime.unreadable:
                print(f"{runtime.unreadable} are not in this core file, or cannot be read.")
            if not chosen:
                print("No uthreads.")
                return
            now = selected(runtime, of)
            rows = [("Id", "Name", "State", "Frame")]
            rows += [(str(ut.id), ut.name, ut.says(), self.frame(ut)) for ut in chosen]
            widths = [max(len(row[i]) for row in rows) for i in range(3)]
            stars = [False, *(ut is now for ut in chosen)]
            for star, row in zip(stars, rows, strict=True):
                cells = "  ".join(
                    cell.ljust(width) for cell, width in zip(row, widths, strict=False)
                )
                print(f"{'*' if star else ' '} {cells}  {row[3]}")

    @staticmethod
    def frame(ut: Uthread) -> str:
        if ut.state == "ended":
            return ""
        with Place():
            try:
                if not ut.lwp and ut.has_not_begun():
                    return entry(ut)
                return where(ut.layout, go_to(ut))
            except (gdb.error, gdb.GdbError) as error:
                return f"<{error}>"


class UthreadCommand(gdb.Command):
    """Go to a uthread, or run a command there.

    uthread                              say which is selected
    uthread WHICH                        select it: bt, frame, print and the like are of its stack
    uthread WHICH COMMAND                run a gdb command on its stack, such as bt
    uthread apply all|WHICH... COMMAND   the same on several

    WHICH is a number or a name (info uthreads). One that is parked stays selected until the
    program goes on, or another uthread is selected, or `uthread -`: back to the thread.
    Stepping is by threads."""

    def __init__(self) -> None:
        super().__init__("uthread", gdb.COMMAND_STACK)

    def invoke(self, argument: str, from_tty: bool) -> None:
        which, command = first_word(argument)
        if which == "apply":
            self.apply(command, from_tty)
        elif which == "-":
            view.off()
            gdb.execute("frame", from_tty)
        elif command:
            self.run(lambda runtime: [runtime.find(which)], command, from_tty, head=False)
        elif which:
            self.select(which, from_tty)
        else:
            self.say()

    @staticmethod
    def say() -> None:
        of = shown()
        with Place():
            now = selected(Runtime(), of)
        print(f"[{title(now)}]" if now else "[No uthread is selected]")

    @staticmethod
    def select(which: str, from_tty: bool) -> None:
        with Place():
            ut = Runtime().find(which)
        print(f"[Switching to {title(ut)}]")
        go_to(ut)
        gdb.execute("frame", from_tty)

    def apply(self, argument: str, from_tty: bool) -> None:
        which, command = first_word(argument)
        if which == "all":
            self.run(lambda runtime: runtime.uthreads, command, from_tty, head=True)
            return
        with Place():
            uthreads = Runtime().uthreads
        known = {str(ut.id) for ut in uthreads} | {ut.name for ut in uthreads} - {""}
        wanted = []
        while which in known:
            wanted.append(which)
            argument = command
            which, command = first_word(argument)
        if not wanted:
            raise gdb.GdbError("which uthreads? uthread apply all|WHICH... COMMAND")
        self.run(lambda runtime: runtime.chosen(wanted), argument, from_tty, head=True)

    @staticmethod
    def run(
        choose: Callable[[Runtime], list[Uthread]], command: str, from_tty: bool, head: bool
    ) -> None:
        if not command:
            raise gdb.GdbError("which command? uthread apply all|WHICH... COMMAND")
        with Place():
            for ut in choose(Runtime()):
                if head:
                    print(f"\n{title(ut)}:")
                try:
                    with Place():
                        go_to(ut)
                        gdb.execute(command, from_tty)
                except (gdb.error, gdb.GdbError) as error:
                    if not head:
                        raise
                    print(error)


def title(ut: Uthread) -> str:
    name = f" '{ut.name}'" if ut.name else ""
    return f"Uthread {ut.id}{name}: {ut.says()}"


view = View()
gdb.unwinder.register_unwinder(None, view, replace=True)
gdb.events.cont.connect(view.forget)
gdb.events.exited.connect(view.forget)
InfoUthreads()
UthreadCommand()
