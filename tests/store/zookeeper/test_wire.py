"""Requests and replies against structs packed by hand from the protocol's records."""

import struct
from typing import Any

import pytest
from aiozk import protocol
from aiozk.protocol.request import Request
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl import errors
from broker_ctl.store.interface import (
    Change,
    Check,
    Create,
    CreateMode,
    Delete,
    Notification,
    Read,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.store import ZooKeeperStore

ACL = wire.pack_acl([protocol.UNRESTRICTED_ACCESS])
MODE = CreateMode
STAT = Stat(11, 12, 13, 14, 15, 16, 17, -18, 19, 20, 21)
STAT_BYTES = struct.pack("!qqqqiiiqiiq", 11, 12, 13, 14, 15, 16, 17, -18, 19, 20, 21)
HEADER = struct.pack("!iqi", 7, 99, 0)


def text(value: str | bytes) -> bytes:
    """A ustring or a buffer."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("!i", len(data)) + data


def ints(*values: int) -> bytes:
    return struct.pack(f"!{len(values)}i", *values)


def header(kind: int, *, done: bool = False, error: int = -1) -> bytes:
    return struct.pack("!i?i", kind, done, error)


WORLD = ints(1, 31) + text("world") + text("anyone")
END = header(-1, done=True)


def create(path: str, data: bytes, flags: int) -> bytes:
    return text(path) + text(data) + WORLD + ints(flags)


REQUESTS: list[tuple[str, Request, int | None, bytes]] = [
    (
        "connect",
        wire.connect(30_000, -5, b"p" * 16, 77),
        None,
        struct.pack("!iqiq", 0, 77, 30_000, -5) + text(b"p" * 16) + b"\0",
    ),
    ("ping", wire.ping(), wire.XID_PING, ints(-2, 11)),
    (
        "auth",
        wire.auth_digest(b"me:secret"),
        wire.XID_AUTH,
        ints(-4, 100, 0) + text("digest") + text(b"me:secret"),
    ),
    (
        "setWatches2",
        wire.set_watches(77, ["/a", "/ü"]),
        wire.XID_SET_WATCHES,
        ints(-8, 105) + struct.pack("!q", 77) + ints(0, 0, 0, 0, 2) + text("/a") + text("/ü"),
    ),
    ("closeSession", wire.close_session().record, 1, ints(1, -11)),
    ("getData", wire.wire_get("/a").record, 2, ints(2, 4) + text("/a") + b"\0"),
    ("exists", wire.exists("/ü").record, 3, ints(3, 3) + text("/ü") + b"\0"),
    ("getChildren", wire.children("/a").record, 4, ints(4, 8) + text("/a") + b"\0"),
    ("sync", wire.sync("/a").record, 5, ints(5, 9) + text("/a")),
    ("getEphemerals", wire.ephemerals("/a").record, 6, ints(6, 103) + text("/a")),
    ("addWatch", wire.add_watch("/a").record, 7, ints(7, 106) + text("/a") + ints(1)),
    (
        "create2",
        wire.wire_write(Create("/a", b"1"), ACL).record,
        8,
        ints(8, 15) + create("/a", b"1", 0),
    ),
    (
        "create2 ephemeral",
        wire.wire_write(Create("/a", b"1", MODE.EPHEMERAL), ACL).record,
        8,
        ints(8, 15) + create("/a", b"1", 1),
    ),
    (
        "create2 sequential",
        wire.wire_write(Create("/a", b"1", MODE.SEQUENTIAL), ACL).record,
        8,
        ints(8, 15) + create("/a", b"1", 2),
    ),
    (
        "create2 ephemeral sequential",
        wire.wire_write(Create("/a", b"1", MODE.EPHEMERAL_SEQUENTIAL), ACL).record,
        8,
        ints(8, 15) + create("/a", b"1", 3),
    ),
    (
        "createContainer",
        wire.wire_write(Create("/a", b"", MODE.CONTAINER), ACL).record,
        8,
        ints(8, 19) + create("/a", b"", 4),
    ),
    (
        "createTTL",
        wire.wire_write(Create("/a", b"", MODE.TTL, 5000), ACL).record,
        8,
        ints(8, 21) + create("/a", b"", 5) + struct.pack("!q", 5000),
    ),
    (
        "setData",
        wire.wire_write(SetData("/a", b"\0\xff", 3), ACL).record,
        9,
        ints(9, 5) + text("/a") + text(b"\0\xff") + ints(3),
    ),
    (
        "delete",
        wire.wire_write(Delete("/a", -1), ACL).record,
        10,
        ints(10, 2) + text("/a") + ints(-1),
    ),
    (
        "multi",
        wire.wire_multi(
            [
                Check("/c", 4),
                Create("/a", b"1", MODE.EPHEMERAL),
                Create("/k", b"", MODE.CONTAINER),
                Create("/t", b"", MODE.TTL, 9),
                SetData("/s", b"2", 5),
                Delete("/d", 6),
            ],
            ACL,
        ).record,
        11,
        ints(11, 14)
        + (header(13) + text("/c") + ints(4))
        + (header(15) + create("/a", b"1", 1))
        + (header(19) + create("/k", b"", 4))
        + (header(21) + create("/t", b"", 5) + struct.pack("!q", 9))
        + (header(5) + text("/s") + text(b"2") + ints(5))
        + (header(2) + text("/d") + ints(6))
        + END,
    ),
    (
        "multiRead",
        wire.wire_multi_read([Read("/a"), Read("/b")]).record,
        12,
        ints(12, 22) + (header(4) + text("/a") + b"\0") + (header(4) + text("/b") + b"\0") + END,
    ),
]


@pytest.mark.parametrize(
    ("record", "xid", "expected"),
    [row[1:] for row in REQUESTS],
    ids=[row[0] for row in REQUESTS],
)
def test_requests_are_these_bytes(record: Request, xid: int | None, expected: bytes) -> None:
    assert wire.frame(record, xid) == text(expected)


MULTI = wire.wire_multi(
    [Check("/c"), Create("/a", b"1"), Create("/k-", b"", MODE.SEQUENTIAL), SetData("/s", b"")],
    ACL,
)
REPLIES: list[tuple[str, wire.Call[Any], bytes, object]] = [
    ("getData", wire.wire_get("/a"), text(b"1") + STAT_BYTES, Versioned("/a", b"1", STAT)),
    ("getData of null", wire.wire_get("/a"), ints(-1) + STAT_BYTES, Versioned("/a", b"", STAT)),
    ("exists", wire.exists("/a"), STAT_BYTES, STAT),
    ("getChildren", wire.children("/a"), ints(2) + text("ü") + text("b"), ["b", "ü"]),
    ("getChildren of null", wire.children("/a"), ints(-1), []),
    ("sync", wire.sync("/a"), text("/a"), None),
    ("getEphemerals", wire.ephemerals("/a"), ints(1) + text("/a/e"), ["/a/e"]),
    ("addWatch", wire.add_watch("/a"), ints(0), None),
    (
        "create2",
        wire.wire_write(Create("/a-", b"1", MODE.SEQUENTIAL), ACL),
        text("/a-0000000001") + STAT_BYTES,
        (Versioned("/a-0000000001", b"1", STAT),),
    ),
    ("setData", wire.wire_write(SetData("/a", b""), ACL), STAT_BYTES, (STAT,)),
    ("delete", wire.wire_write(Delete("/a"), ACL), b"", (None,)),
    (
        "multi",
        MULTI,
        (header(13, error=0))
        + (header(15, error=0) + text("/a") + STAT_BYTES)
        + (header(15, error=0) + text("/k-0000000000") + STAT_BYTES)
        + (header(5, error=0) + STAT_BYTES)
        + END,
        (None, Versioned("/a", b"1", STAT), Versioned("/k-0000000000", b"", STAT), STAT),
    ),
    (
        "multiRead",
        wire.wire_multi_read([Read("/a"), Read("/b"), Read("/c")]),
        (header(4, error=0) + text(b"1") + STAT_BYTES)
        + (header(-1, error=-101) + ints(-101))
        + (header(4, error=0) + text(b"") + STAT_BYTES)
        + END,
        [Versioned("/a", b"1", STAT), None, Versioned("/c", b"", STAT)],
    ),
]


@pytest.mark.parametrize(
    ("call", "body", "expected"),
    [row[1:] for row in REPLIES],
    ids=[row[0] for row in REPLIES],
)
def test_replies_are_read_from_these_bytes(
    call: wire.Call[Any],
    body: bytes,
    expected: object,
) -> None:
    assert call.decode(HEADER + body, wire.REPLY_HEADER_BYTES) == expected


@pytest.mark.parametrize(
    ("call", "body"),
    [(row[1], row[2]) for row in REPLIES if row[2] and row[0] not in {"sync", "addWatch"}],
    ids=[row[0] for row in REPLIES if row[2] and row[0] not in {"sync", "addWatch"}],
)
def test_a_reply_that_is_cut_short_is_an_error_wherever_it_is_cut(
    call: wire.Call[Any],
    body: bytes,
) -> None:
    whole = HEADER + body
    # The end mark of a multi is not read: the request fixes the number of results.
    needed = len(whole) - (len(END) if body.endswith(END) else 0)
    for length in range(len(HEADER), needed):
        with pytest.raises((struct.error, UnicodeDecodeError, IndexError)):
            call.decode(whole[:length], wire.REPLY_HEADER_BYTES)


def test_a_failed_multi_names_the_first_culprit_of_its_results() -> None:
    rolled_back = header(-1, error=0) + ints(0)
    body = (
        rolled_back
        + (header(-1, error=-110) + ints(-110))
        + (header(-1, error=-2) + ints(-2))
        + (header(-1, error=-2) + ints(-2))
        + END
    )
    with pytest.raises(errors.MultiFailed) as failure:
        MULTI.decode(HEADER + body, wire.REPLY_HEADER_BYTES)
    assert failure.value.index == 1
    assert failure.value.path == "/a"
    assert isinstance(failure.value.cause, errors.NodeExists)


@pytest.mark.parametrize(
    ("code", "kind"), [(-112, errors.SessionExpired), (-118, errors.SessionMoved)]
)
def test_the_end_of_the_session_in_a_part_of_a_multi_is_not_taken_for_a_failed_operation(
    code: int, kind: type[errors.StoreError]
) -> None:
    reply = header(-1, error=code) + ints(code) + header(-1, error=-2) + ints(-2)
    call = wire.wire_multi([Check("/epoch", 3), Create("/a")], b"")
    with pytest.raises(kind):
        call.decode(reply, 0)


def test_of_many_reads_the_one_that_may_not_be_read_fails() -> None:
    body = (header(4, error=0) + text(b"") + STAT_BYTES) + header(-1, error=-102) + ints(-102)
    call = wire.wire_multi_read([Read("/a"), Read("/b")])
    found, refused = call.decode(HEADER + body + END, wire.REPLY_HEADER_BYTES)
    assert found == Versioned("/a", b"", STAT)
    assert isinstance(refused, errors.NoAuth)


def test_the_header_of_a_reply_is_xid_zxid_error() -> None:
    assert wire.reply_header(struct.pack("!iqi", -1, 1 << 40, -101)) == (-1, 1 << 40, -101)


def test_a_handshake_holds_timeout_session_and_password() -> None:
    data = struct.pack("!iiq", 0, 4000, -9) + text(b"p" * 16)
    expected = wire.Handshake(4000, -9, b"p" * 16)
    assert wire.handshake(data) == expected
    assert wire.handshake(data + b"\0") == expected  # servers since 3.4 add read-only
    for length in range(len(data)):
        with pytest.raises(struct.error):
            wire.handshake(data[:length])


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (1, Change.CREATED),
        (2, Change.DELETED),
        (3, Change.MODIFIED),
        (4, Change.CHILDREN_CHANGED),
        (-1, None),  # the state of the session, which the socket shows sooner
        (5, None),  # a watch was removed
        (7, None),
    ],
)
def test_events_of_nodes_are_decoded_and_no_others(kind: int, change: Change | None) -> None:
    data = struct.pack("!iqi", -1, 99, 0) + ints(kind, 3) + text("/a/ü")
    expected = Notification(change, "/a/ü", 99) if change is not None else None
    _, zxid, _ = wire.reply_header(data)
    assert wire.event(data, zxid) == expected


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-4, errors.ConnectionLoss),
        (-6, errors.Unsupported),
        (-7, errors.OperationTimeout),
        (-101, errors.NoNode),
        (-102, errors.NoAuth),
        (-103, errors.BadVersion),
        (-108, errors.InvalidPath),
        (-110, errors.NodeExists),
        (-111, errors.NotEmpty),
        (-112, errors.SessionExpired),
        (-115, errors.AuthFailed),
        (-118, errors.SessionMoved),
        (-127, errors.Throttled),
    ],
)
def test_codes_are_our_errors_and_name_the_path(code: int, kind: type[errors.StoreError]) -> None:
    error = wire.error_of(code, "/a")
    assert type(error) is kind
    assert str(error).startswith("/a: ")


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_code_is_an_error_and_an_unknown_one_keeps_its_number(code: int) -> None:
    error = wire.error_of(code, "/a")
    assert type(error) is not errors.StoreError or code in {-2, -5, -125} or str(code) in str(error)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=5), st.binary(max_size=9)), max_size=5))
def test_whatever_a_create_carries_can_be_read_back(nodes: list[tuple[str, bytes]]) -> None:
    operations = [Create(f"/{name}", data) for name, data in nodes if name.isalnum()]
    body = b"".join(
        header(15, error=0) + text(operation.path) + STAT_BYTES for operation in operations
    )
    call = wire.wire_multi(operations, ACL)
    assert call.decode(HEADER + body + END, wire.REPLY_HEADER_BYTES) == tuple(
        Versioned(operation.path, operation.data, STAT) for operation in operations
    )


async def test_a_real_server_reads_our_requests_as_they_are_meant(observer: ZooKeeperStore) -> None:
    container = await observer.create("/c", b"", MODE.CONTAINER)
    timed = await observer.create("/c/t", b"1", MODE.TTL, ttl_ms=60_000)
    ephemeral = await observer.create("/c/e", b"\0\xff", MODE.EPHEMERAL)
    # Clients are shown an owner for ephemerals only.
    owners = [node.stat.ephemeral_owner for node in (container, timed, ephemeral)]
    assert owners == [0, 0, observer.session_id]
    assert await observer.get_many(["/c/t", "/c/x", "/c/e"]) == [timed, None, ephemeral]
    results = await observer.multi(
        [
            Create("/m", b"", MODE.CONTAINER),
            Create("/m/t", b"", MODE.TTL, 60_000),
            Create("/m/n-", b"", MODE.EPHEMERAL_SEQUENTIAL),
            Check("/m/t", 0),
            SetData("/m/t", b"2", 0),
            Delete("/c/t", 0),
        ],
    )
    paths = [result.path for result in results if isinstance(result, Versioned)]
    assert paths == ["/m", "/m/t", "/m/n-0000000001"]
    assert await observer.ephemerals("/m") == ["/m/n-0000000001"]


async def test_a_real_server_wants_a_time_for_a_ttl_node(observer: ZooKeeperStore) -> None:
    with pytest.raises(errors.InvalidPath):
        await observer.create("/t", b"", MODE.TTL, ttl_ms=0)
    with pytest.raises(errors.InvalidPath):
        await observer.create("/t", b"", MODE.TTL, ttl_ms=1 << 40)
