# SPDX-License-Identifier: Apache-2.0
"""Frames on a serial line that others also write on.

    @@SWTCH <seq> <length> <crc32hex> <json>\\n

``length`` counts the bytes of the JSON; the CRC-32 is over ``<seq> <length> ``
and the JSON. probes/guest/frame.c is the other end.

Invariants:

- Whatever is between frames is noise and is given back as such (on arm64 it is
  the guest's console); it never costs a frame.
- A frame is given out only whole and with the right CRC. A damaged one is
  noise, and the search goes on one byte after its mark, so a whole frame
  inside what a damaged length claims is still found.

Rejected: a byte-stuffed binary protocol (the console could not be read with a
pager any more), relying on lines (a kernel message may fall into one).
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

MARK = b"@@SWTCH "
JSON_MAX = 8192
_HEAD_MAX = 48
_HEAD = re.compile(rb"@@SWTCH (\d{1,10}) (\d{1,5}) ([0-9a-f]{8}) ")


class Frame(msgspec.Struct, frozen=True):
    """One frame: its number on the line and its object."""

    seq: int
    body: dict[str, Any]


def encode(seq: int, body: dict[str, Any]) -> bytes:
    """The bytes of one frame, on a line of its own."""
    text = msgspec.json.encode(body)
    if len(text) > JSON_MAX:
        raise ValueError(f"frame of {len(text)} bytes; {JSON_MAX} are allowed")
    counted = b"%d %d " % (seq, len(text))
    return b"\n%s%s%08x %s\n" % (MARK, counted, zlib.crc32(text, zlib.crc32(counted)), text)


class Decoder:
    """Takes what comes off the line in any pieces; gives frames and noise."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._noise = bytearray()
        self.damaged = 0

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now, in order."""
        self._buffer += data
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def flush(self) -> list[Frame]:
        """At the end of the line: frames that a damaged one before them still hid."""
        frames = []
        while self._buffer:
            frames += self.feed(b"")
            self._drop(1)
        return frames

    def noise(self) -> bytes:
        """The noise since the last call."""
        noise = bytes(self._noise)
        self._noise.clear()
        return noise

    def _next(self) -> Frame | None:
        while True:
            start = self._buffer.find(MARK)
            if start < 0:
                # The beginning of a mark may be at the end.
                begun = range(len(MARK) - 1, 0, -1)
                kept = next((size for size in begun if self._buffer.endswith(MARK[:size])), 0)
                self._drop(len(self._buffer) - kept)
                return None
            self._drop(start)
            size, frame = self._at_start()
            if frame is not None:
                del self._buffer[:size]
                return frame
            if size < 0:
                return None
            self.damaged += 1
            self._drop(1)

    def _at_start(self) -> tuple[int, Frame | None]:
        """(size, frame); (-1, None) when more must come; (0, None) when it is none."""
        head = _HEAD.match(self._buffer)
        if head is None:
            begun = bytes(self._buffer[:_HEAD_MAX])
            may_grow = len(begun) < _HEAD_MAX and b"\n" not in begun
            return (-1, None) if may_grow else (0, None)
        length = int(head[2])
        if length > JSON_MAX:
            return 0, None
        end = head.end() + length
        if len(self._buffer) < end:
            return -1, None
        text = bytes(self._buffer[head.end() : end])
        counted = b"%s %s " % (head[1], head[2])
        if zlib.crc32(text, zlib.crc32(counted)) != int(head[3], 16):
            return 0, None
        try:
            body = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return 0, None
        if not isinstance(body, dict):
            return 0, None
        return end, Frame(int(head[1]), body)

    def _drop(self, size: int) -> None:
        self._noise += self._buffer[:size]
        del self._buffer[:size]
