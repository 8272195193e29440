"""A stream that is cut into commands, however it was cut before."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.api.binary.replies import MAX_COMMAND_BYTES, BinaryFrames, MalformedFrame, frame

COMMANDS = st.lists(st.binary(max_size=300), max_size=8)


def taken(frames: BinaryFrames) -> list[bytes]:
    found = []
    while (command := frames.next()) is not None:
        found.append(command)
    return found


@given(COMMANDS, st.data())
def test_commands_come_out_whole_wherever_the_stream_is_cut(
    commands: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(map(frame, commands))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=9)))
    frames, found = BinaryFrames(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames.feed(stream[start:end])
        found += taken(frames)
    assert found == commands


@given(COMMANDS, st.data())
def test_commands_wait_for_their_reader(commands: list[bytes], data: st.DataObject) -> None:
    # As they do while a client has as many requests in progress as it may.
    stream = b"".join(map(frame, commands))
    frames, found = BinaryFrames(), []
    for start in range(0, len(stream), 50):
        frames.feed(stream[start : start + 50])
        if data.draw(st.booleans()) and (command := frames.next()) is not None:
            found.append(command)
    assert found + taken(frames) == commands


def test_a_stream_of_single_bytes_is_a_stream() -> None:
    stream, frames, found = frame(b"a" * 1000) + frame(b""), BinaryFrames(), []
    for byte in stream:
        frames.feed(bytes([byte]))
        found += taken(frames)
    assert found == [b"a" * 1000, b""]


def test_the_longest_command_is_taken() -> None:
    frames = BinaryFrames()
    frames.feed(frame(bytes(MAX_COMMAND_BYTES)))
    assert frames.next() == bytes(MAX_COMMAND_BYTES)


@pytest.mark.parametrize(
    ("total", "size", "why"),
    [
        (MAX_COMMAND_BYTES + 5, MAX_COMMAND_BYTES + 1, r"16389 bytes; at most 16384"),
        (0xFFFFFFFF, 0xFFFFFFFB, "4294967295 bytes; at most"),
        (14, 9, r"14 bytes with a payload: 9 bytes of command"),
        (14, 11, r"14 bytes with less than its command: 11"),
        (0, 0, "less than its command"),
        (3, 0xFFFFFFFF, "less than its command"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_at_once(total: int, size: int, why: str) -> None:
    frames = BinaryFrames()
    frames.feed(frame(b"good") + struct.pack("!II", total, size))
    assert frames.next() == b"good"
    with pytest.raises(MalformedFrame, match=why):
        frames.next()


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01"])
def test_another_protocol_is_detected_at_once(greeting: bytes) -> None:
    frames = BinaryFrames()
    frames.feed(greeting)
    with pytest.raises(MalformedFrame):
        frames.next()
