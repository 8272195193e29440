"""From the bytes of a segment to its lines, in bounded memory."""

import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from broker_ctl.errors import CorruptRecord

# Daemons write a few hundred rows into a line, which is far shorter.
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
UNREADABLE: Final = "cannot be read"
_GZIP: Final = zlib.MAX_WBITS | 16


class Line(NamedTuple):
    """A line of a segment.

    Attributes:
        number: in its segment, from 1.
        data: null if it is too long.
    """

    number: int
    data: bytes | None


def too_large(limit_bytes: int) -> str:
    """Fault of a segment with more bytes than that after decompression."""
    return f"larger than {limit_bytes} bytes after decompression"


def unpack(name: str, content: bytes | memoryview, limit_bytes: int) -> bytes:
    """The bytes of a segment, which is compressed if its name says so.

    Never holds more than one byte above the limit, whatever the file would unpack to.

    Raises:
        CorruptRecord: it is larger than the limit, or no gzip, or torn; the message is the fault.
    """
    parts = _members(content, limit_bytes) if name.endswith(".gz") else (bytes(content),)
    data = b"".join(parts)
    if len(data) > limit_bytes:
        raise CorruptRecord(too_large(limit_bytes))
    return data


def _members(content: bytes | memoryview, limit_bytes: int) -> Iterator[bytes]:
    """The content of each member of a gzip file, up to one byte above the limit."""
    left = limit_bytes + 1
    rest = content
    while left:
        unpacker = zlib.decompressobj(_GZIP)
        try:
            data = unpacker.decompress(rest, left)
        except zlib.error as error:
            raise CorruptRecord(UNREADABLE) from error
        yield data
        left -= len(data)
        if unpacker.eof:
            rest = unpacker.unused_data
            if not rest:
                return
        elif left:
            raise CorruptRecord(UNREADABLE)


def split(data: bytes) -> Iterator[Line]:
    """The lines that are not empty."""
    start, number = 0, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += 1
        if end - start > MAX_LINE_BYTES:
            yield Line(number, None)
        elif end > start:
            yield Line(number, data[start:end])
        start = end + 1
