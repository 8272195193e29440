"""Segments become lines in bounded memory, whatever stands in them."""

import gzip
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker_ctl.errors import CorruptRecord
from broker_ctl.pipeline.reading import judging
from broker_ctl.pipeline.reading.judging import Line, split, too_large, unpack

MIB = 1 << 20
PACKED = "x.ndjson.gz"


def packed(data: bytes) -> bytes:
    """The same bytes at any time: they are part of the name of a test."""
    return gzip.compress(data, mtime=0)


def bomb(mebibytes: int) -> bytes:
    """One line of spaces, packed a thousandfold."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    parts = [packer.compress(b" " * MIB) for _ in range(mebibytes)]
    return b"".join([*parts, packer.flush()])


@contextmanager
def bounded(most_bytes: int) -> Iterator[None]:
    """The block never holds more than that at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


def test_a_bomb_is_never_unpacked_beyond_the_limit() -> None:
    data = bomb(256)
    with bounded(5 * MIB), pytest.raises(CorruptRecord, match=too_large(MIB)):
        unpack(PACKED, memoryview(data), MIB)


@pytest.mark.parametrize("members", [1, 3])
def test_the_size_after_decompression_is_exact(members: int) -> None:
    data = packed(b"y" * 1000) * members
    size = 1000 * members
    assert unpack(PACKED, data, size) == b"y" * size
    with pytest.raises(CorruptRecord, match=too_large(size - 1)):
        unpack(PACKED, data, size - 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        packed(b"y" * 1000)[:-1],
        packed(b"y" * 1000)[:-9],
        packed(b"y") + b"rubbish",
        packed(b"y")[:-8] + b"12345678",
    ],
)
def test_what_is_not_a_whole_gzip_cannot_be_read(data: bytes) -> None:
    with pytest.raises(CorruptRecord, match="cannot be read"):
        unpack(PACKED, data, MIB)


def test_a_plain_segment_is_read_as_it_is() -> None:
    assert unpack("x.ndjson", memoryview(b"a\nb"), 3) == b"a\nb"
    with pytest.raises(CorruptRecord, match="larger than 2 bytes"):
        unpack("x.ndjson", b"a\nb", 2)


def test_lines_keep_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MAX_LINE_BYTES", 3)
    assert list(split(b"")) == []
    assert list(split(b"\n\n")) == []
    assert list(split(b"a\n\nb\nlong\nlon\nend")) == [
        Line(1, b"a"),
        Line(3, b"b"),
        Line(4, None),
        Line(5, b"lon"),
        Line(6, b"end"),
    ]
