"""What a ZooKeeper server sends: frames, replies to each kind of request, events, challenges."""

import asyncio
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from broker_ctl.errors import AuthFailed, StoreError, TooLarge
from broker_ctl.store.interface import (
    Aspect,
    Check,
    Create,
    CreateMode,
    Delete,
    Operation,
    Read,
    SetData,
)
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.access import answer, get_acl
from broker_ctl.store.zookeeper.connection import Frames, Pending

_OPERATIONS: Final[Sequence[Operation]] = (
    Create("/a", b"1", CreateMode.EPHEMERAL),
    SetData("/b", b"2"),
    Delete("/c"),
    Check("/d", 1),
)
_READS: Final = tuple(Read("/a", aspect) for aspect in Aspect)
_CALLS: Final[Sequence[wire.Call[Any]]] = (
    wire.wire_get("/a", "/base"),
    wire.exists("/a"),
    wire.children("/a"),
    wire.ephemerals("/a", "/base"),
    wire.sync("/a"),
    *(wire.wire_write(operation, b"") for operation in _OPERATIONS),
    wire.wire_multi(_OPERATIONS, b"", "/base"),
    wire.wire_multi_read(_READS),
    get_acl("/a"),
)
_MAX_FRAME_BYTES: Final = 4096
_HEADER: Final = bytes(wire.REPLY_HEADER_BYTES)
_LOOP: Final = asyncio.new_event_loop()


def replies(data: bytes) -> None:
    """The first byte is the kind of request, the rest the reply after its header."""
    if not data:
        return
    future: asyncio.Future[Any] = _LOOP.create_future()
    call = _CALLS[data[0] % len(_CALLS)]
    Pending(1, call, future, 0.0).answer(_HEADER + data[1:])
    assert future.done()
    error = future.exception()
    assert error is None or isinstance(error, StoreError)


def streams(data: bytes) -> None:
    """The first byte is where the stream is cut; then frames with anything that has no request."""
    if not data:
        return
    cut, stream = data[0], data[1:]
    with suppress(AuthFailed):
        answer(stream, b"user:password", "cnonce")
    frames, found = Frames(_MAX_FRAME_BYTES), list[bytes]()
    with suppress(TooLarge):
        for part in (stream[:cut], stream[cut:]):
            found += frames.cut(part)
    assert all(len(frame) <= _MAX_FRAME_BYTES for frame in found)
    for frame in found:
        with suppress(struct.error, UnicodeDecodeError):
            _, zxid, error = wire.reply_header(frame)
            assert isinstance(wire.error_of(error, "/a"), StoreError)
            wire.event(frame, zxid)
        with suppress(struct.error):
            wire.handshake(frame)
