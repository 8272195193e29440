"""A stream of bytes, cut into frames."""

import struct
from collections.abc import Iterator

from broker_ctl.errors import TooLarge

_LENGTH = struct.Struct("!i")


class Frames:
    """Assembles a frame that spans many reads without copying its parts at each read."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._partial = bytearray()
        self._wanted = _LENGTH.size  # bytes of the frame that `_partial` begins with

    def cut(self, data: bytes) -> Iterator[bytes]:
        """The frames that ``data`` completes, without their lengths.

        Raises:
            TooLarge: a frame that is longer than it may be, or no frame at all. It is raised as
                soon as its length is known: what follows would never end.
        """
        if self._partial:
            self._partial += data
            if len(self._partial) < self._wanted:
                return
            data = bytes(self._partial)
            self._partial.clear()
        offset, size = 0, len(data)
        self._wanted = _LENGTH.size
        while size - offset >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, offset)
            if not 0 <= length <= self._max_bytes:
                raise TooLarge(f"a frame of {length} bytes")
            start = offset + _LENGTH.size
            if start + length > size:
                self._wanted = _LENGTH.size + length
                break
            offset = start + length
            yield data[start:offset]
        if offset < size:
            self._partial += data[offset:]
