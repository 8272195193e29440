"""A client's stream of bytes, cut into commands (docs: pulsar-binary-lookup).

A frame is the size of what follows, the size of the command, the command. Pulsar takes frames of
5 MiB + 10 KiB, because messages travel in them. No message is accepted here, and what may follow a
command, its payload, is refused: so the bound is that of a lookup. A topic's name has at most
4 KiB and a bit, and a proxy adds the client's token; 16 KiB hold both, twice, and ten thousand
clients that stop in the middle of a frame hold no more than 160 MiB.
"""

import struct
from typing import Final

from broker_ctl.errors import BrokerCtlError

MAX_COMMAND_BYTES: Final = 16 * 1024

_SIZES: Final = struct.Struct("!II")
_SIZE_BYTES: Final = 4


class MalformedFrame(BrokerCtlError):
    """The bytes are not a frame that is accepted here; nothing after them can be read."""


def frame(command: bytes) -> bytes:
    """A command, ready to be written."""
    size = len(command)
    return _SIZES.pack(size + _SIZE_BYTES, size) + command


class Frames:
    """Assembles frames that span many reads; returns one command at a time."""

    def __init__(self) -> None:
        self._data = b""
        self._offset = 0  # of the first byte that was not given out

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        self._keep_rest()
        self._data += data

    def next(self) -> bytes | None:
        """The next command; None: it has not come whole.

        Raises:
            MalformedFrame: as soon as the sizes are there.
        """
        data, start = self._data, self._offset + _SIZES.size
        if start > len(data):
            self._keep_rest()
            return None
        total, size = _SIZES.unpack_from(data, self._offset)
        if total > MAX_COMMAND_BYTES + _SIZE_BYTES:
            raise MalformedFrame(f"a frame of {total} bytes; at most {MAX_COMMAND_BYTES} are taken")
        if total != size + _SIZE_BYTES:
            what = "a payload" if total > size + _SIZE_BYTES else "less than its command"
            raise MalformedFrame(f"a frame of {total} bytes with {what}: {size} bytes of command")
        end = start + size
        if end > len(data):
            self._keep_rest()
            return None
        self._offset = end
        return data[start:end]

    def _keep_rest(self) -> None:
        # A client that stops in the middle of a frame must not keep earlier frames in memory.
        self._data, self._offset = self._data[self._offset :], 0
