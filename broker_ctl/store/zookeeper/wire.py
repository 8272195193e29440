"""ZooKeeper's requests and replies as bytes."""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from aiozk import protocol
from aiozk.protocol.acl import ACL
from aiozk.protocol.primitives import Int, Long, UString, Vector
from aiozk.protocol.request import Request

from broker_ctl import errors
from broker_ctl.store.interface import (
    Answer,
    Aspect,
    Change,
    Check,
    Create,
    CreateMode,
    Delete,
    Notification,
    Operation,
    Read,
    Result,
    SetData,
    Stat,
    Versioned,
)

# Packs the frequent requests by hand.
#
# aiozk builds a format string and a list for each record, which takes 10 us an operation of a
# multi; packed like this it takes 1. Rare requests use aiozk's records (`wire`). Docs:
# zookeeper-wire.


CREATE_2: Final = 15
DELETE: Final = 2
GET_DATA: Final = 4
SET_DATA: Final = 5
GET_CHILDREN: Final = 8
CHECK: Final = 13
MULTI: Final = 14
CREATE_CONTAINER: Final = 19
CREATE_TTL: Final = 21
MULTI_READ: Final = 22

# A result in the reply of a multi; of each create it is that of create2.
RESULTS: Final[dict[type[Operation], int]] = {
    Create: CREATE_2,
    SetData: SET_DATA,
    Delete: DELETE,
    Check: CHECK,
}
_XID_AND_OPCODE = struct.Struct("!ii")
_INT = struct.Struct("!i")
_LONG = struct.Struct("!q")
_NO_WATCH: Final = b"\0"
# Header of each operation of a multi after its opcode: not done, no error yet.
_NOT_DONE: Final = b"\0" + _INT.pack(-1)
_END: Final = _INT.pack(-1) + b"\1" + _INT.pack(-1)
_GET_PART: Final = _INT.pack(GET_DATA) + _NOT_DONE
_CHILDREN_PART: Final = _INT.pack(GET_CHILDREN) + _NOT_DONE
_FLAGS: Final = {
    CreateMode.PERSISTENT: _INT.pack(0),
    CreateMode.EPHEMERAL: _INT.pack(1),
    CreateMode.SEQUENTIAL: _INT.pack(2),
    CreateMode.EPHEMERAL_SEQUENTIAL: _INT.pack(3),
    CreateMode.CONTAINER: _INT.pack(4),
    CreateMode.TTL: _INT.pack(5),
}
# create2 and its kin answer with the Stat. Flag 4 under another opcode than 19 would make a plain
# persistent node, which is what aiozk sends.
_CREATE_OPCODES: Final = {CreateMode.CONTAINER: CREATE_CONTAINER, CreateMode.TTL: CREATE_TTL}


class Packed(Request):
    """A request whose body is bytes already."""

    def __init__(self, opcode: int, body: bytes) -> None:
        self._opcode = opcode
        self._body = body

    def serialize(self, xid: int | None = None) -> bytes:
        """The frame without its length."""
        return _XID_AND_OPCODE.pack(xid or 0, self._opcode) + self._body


def pack_acl(entries: Sequence[ACL]) -> bytes:
    """The access control list of created nodes, to be packed once."""
    packed = [_INT.pack(len(entries))]
    for entry in entries:
        scheme, who = entry.id.scheme.encode(), entry.id.id.encode()
        packed += (_INT.pack(entry.perms), _text(scheme), _text(who))
    return b"".join(packed)


def _text(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value


def get(path: bytes) -> Packed:
    """Data and Stat of a node."""
    return Packed(GET_DATA, _text(path) + _NO_WATCH)


def multi_read(reads: Iterable[Read], root: bytes) -> Packed:
    """Several reads. A multi-read has no exists operation: it reads the data instead."""
    parts: list[bytes] = []
    pack = _INT.pack
    for read in reads:
        path = root + read.path.encode() if root or read.path != "/" else b"/"
        kind = _CHILDREN_PART if read.aspect is Aspect.CHILDREN else _GET_PART
        parts += (kind, pack(len(path)), path, _NO_WATCH)
    parts.append(_END)
    return Packed(MULTI_READ, b"".join(parts))


def write(operation: Operation, path: bytes, acl: bytes) -> Packed:
    """One operation by itself."""
    return Packed(_opcode(operation), _body(operation, path, acl))


def multi(operations: Sequence[Operation], root: bytes, acl: bytes) -> Packed:
    """All of them or none."""
    parts: list[bytes] = []
    for operation in operations:
        body = _body(operation, root + operation.path.encode(), acl)
        parts += (_INT.pack(_opcode(operation)), _NOT_DONE, body)
    parts.append(_END)
    return Packed(MULTI, b"".join(parts))


def _opcode(operation: Operation) -> int:
    if isinstance(operation, SetData):
        return SET_DATA
    if isinstance(operation, Create):
        return _CREATE_OPCODES.get(operation.mode, CREATE_2)
    return DELETE if isinstance(operation, Delete) else CHECK


def _body(operation: Operation, path: bytes, acl: bytes) -> bytes:
    if isinstance(operation, SetData):
        return _text(path) + _text(operation.data) + _INT.pack(operation.version)
    if isinstance(operation, Create):
        body = _text(path) + _text(operation.data) + (operation.acl or acl)
        body += _FLAGS[operation.mode]
        is_ttl = operation.mode is CreateMode.TTL
        return body + _LONG.pack(operation.ttl_ms) if is_ttl else body
    return _text(path) + _INT.pack(operation.version)


# ZooKeeper's requests and replies as bytes.
#
# Requests are aiozk's records; addWatch, setWatches2 and getEphemerals, which it lacks, are
# declared here as such records; `packing` has the frequent ones. Replies are decoded straight
# into the store's values. Paths are the store's: ``root``, its chroot, is put before them on the
# way out and taken off on the way back. Docs: zookeeper-wire.


T_co = TypeVar("T_co", covariant=True)

XID_EVENT: Final = -1
XID_PING: Final = -2
XID_AUTH: Final = -4
XID_SET_WATCHES: Final = -8

_REPLY_HEADER = struct.Struct("!iqi")
_LENGTH = struct.Struct("!i")
_CONNECT_REPLY = struct.Struct("!iiqi")
_STAT = struct.Struct("!qqqqiiiqiiq")
_MULTI_HEADER = struct.Struct("!i?i")
# Operation type, two fields that are not used here, and the first number of the body.
_READ_HEAD = struct.Struct("!i5xi")
# Kind, state of the session, length of the path.
_EVENT = struct.Struct("!iii")
_NAMES = Vector.of(UString)
_CHANGES: Final = {change.value: change for change in Change}
_WRITES: Final = {Create: "create", SetData: "set", Delete: "delete", Check: "check"}

_RECURSIVE: Final = 1
_ANY_WATCH: Final = 3
_ERROR: Final = -1
_MISMATCH: Final = "a reply to another request"
# A server's error codes as our errors (docs: ambiguous-writes).
_ERRORS: Final[dict[int, tuple[type[errors.StoreError], str]]] = {
    -2: (errors.StoreError, "rolled back because of a neighbour"),
    -4: (errors.ConnectionLoss, "connection lost"),
    -5: (errors.StoreError, "the server could not read the request"),
    -6: (errors.Unsupported, "the server does not know this request: 3.6 or newer is needed"),
    -7: (errors.OperationTimeout, "the server timed out"),
    -8: (errors.InvalidPath, "bad arguments"),
    -12: (errors.SessionExpired, "unknown session"),
    -101: (errors.NoNode, "no such node"),
    -102: (errors.NoAuth, "the access control list does not allow it"),
    -103: (errors.BadVersion, "another version"),
    -108: (errors.InvalidPath, "the parent is ephemeral and can have no children"),
    -110: (errors.NodeExists, "the node exists"),
    -111: (errors.NotEmpty, "the node has children"),
    -112: (errors.SessionExpired, "the session has expired"),
    -114: (errors.NoAuth, "invalid access control list"),
    -115: (errors.AuthFailed, "authentication failed"),
    -13: (errors.StoreError, "no quorum of the new members is in step: try again later"),
    -14: (errors.StoreError, "another reconfiguration is in progress"),
    -123: (errors.Unsupported, "reconfig is disabled: set reconfigEnabled=true at the servers"),
    -118: (errors.SessionMoved, "another connection took the session over"),
    -122: (errors.OperationTimeout, "the server took too long"),
    -124: (errors.AuthFailed, "the server requires SASL"),
    -125: (errors.StoreError, "the quota is exceeded"),
    -127: (errors.Throttled, "the server throttles requests"),
}


class _GetEphemeralsRequest(Request):
    opcode = 103
    parts = (("prefix", UString),)


class _AddWatchRequest(Request):
    opcode = 106
    parts = (("path", UString), ("mode", Int))


class _SetWatches2Request(Request):
    opcode = 105
    parts = (
        ("relative_zxid", Long),
        ("data", _NAMES),
        ("exist", _NAMES),
        ("child", _NAMES),
        ("persistent", _NAMES),
        ("recursive", _NAMES),
    )


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One request: its record, how to read its reply, and whether it changes anything."""

    what: str
    path: str
    record: Request
    decode: Callable[[bytes, int], T_co]
    is_write: bool = False

    def __str__(self) -> str:
        return f"{self.what} {self.path}"


class MismatchedReply(errors.ConnectionLoss):
    """What a reply repeats of its request is of another one (docs: zookeeper-xids).

    The outcome of neither is known, and no later reply of the connection can be believed.
    """


@dataclass(frozen=True, slots=True)
class Handshake:
    """A server's answer to a connect request; ``session_id`` 0 means that the session is gone."""

    timeout_ms: int
    session_id: int
    password: bytes


REPLY_HEADER_BYTES: Final = _REPLY_HEADER.size
_EVENT_BYTES: Final = REPLY_HEADER_BYTES + _EVENT.size


def frame(record: Request, xid: int | None) -> bytes:
    """Length and record, ready to be written."""
    body = record.serialize(xid)
    return _LENGTH.pack(len(body)) + body


def reply_header(data: bytes) -> tuple[int, int, int]:
    """The header of a reply frame: xid, zxid, error code."""
    xid, zxid, error = _REPLY_HEADER.unpack_from(data, 0)
    return xid, zxid, error


def connect(
    timeout_ms: int,
    session_id: int,
    password: bytes,
    last_zxid: int,
) -> Request:
    """The first frame on a connection.

    A server that lags behind ``last_zxid`` refuses the client.
    """
    return protocol.ConnectRequest(
        protocol_version=0,
        last_seen_zxid=last_zxid,
        timeout=timeout_ms,
        session_id=session_id,
        password=password,
        read_only=False,
    )


def handshake(data: bytes) -> Handshake:
    """Decode the reply to a connect request.

    Raises:
        struct.error: it is too short for one.
    """
    _, timeout_ms, session_id, _ = _CONNECT_REPLY.unpack_from(data, 0)
    password, end = _buffer(data, _CONNECT_REPLY.size - _LENGTH.size)
    if end > len(data):
        raise struct.error("the password is cut short")
    return Handshake(timeout_ms, session_id, password)


def event(data: bytes, zxid: int) -> Notification | None:
    """Decode a watch event; None for session states, which the socket reports sooner."""
    # A failover makes one for each partition: less than 1 us, with the tuple made directly.
    kind, _state, size = _EVENT.unpack_from(data, REPLY_HEADER_BYTES)
    change = _CHANGES.get(kind)
    if change is None:
        return None
    end = _EVENT_BYTES + max(size, 0)
    if end > len(data):
        raise struct.error("the path of an event is cut short")
    return tuple.__new__(Notification, (change, data[_EVENT_BYTES:end].decode(), zxid))


def ping() -> Request:
    """Keeps the session alive, and finds out whether the server answers."""
    return protocol.PingRequest()


def auth_digest(credentials: bytes) -> Request:
    """``user:password``, before anything else is sent."""
    return protocol.AuthRequest(type=0, scheme="digest", auth=credentials)


def set_watches(last_zxid: int, roots: Sequence[str]) -> Request:
    """Register recursive watches again on a new connection. What was missed is not replayed."""
    return _SetWatches2Request(
        relative_zxid=last_zxid,
        data=[],
        exist=[],
        child=[],
        persistent=[],
        recursive=list(roots),
    )


def _nothing(_data: bytes, _offset: int) -> None:
    return None


def _stat(data: bytes, offset: int) -> Stat:
    return Stat._make(_STAT.unpack_from(data, offset))


def _buffer(data: bytes, offset: int) -> tuple[bytes, int]:
    (size,) = _LENGTH.unpack_from(data, offset)
    start = offset + _LENGTH.size
    end = start + max(size, 0)
    return data[start:end], end


def _text_of_wire(data: bytes, offset: int) -> tuple[str, int]:
    text, end = _buffer(data, offset)
    if end > len(data):
        raise struct.error("a text is cut short")
    return text.decode(), end


def _created(sent: Create, root: str, data: bytes, offset: int) -> tuple[Versioned, int]:
    path, offset = _text_of_wire(data, offset)
    expected = root + sent.path
    if path != expected and not (sent.mode.is_sequential and path.startswith(expected)):
        raise MismatchedReply(f"{_MISMATCH}: {path!r} in place of {expected!r}")
    return Versioned(path[len(root) :], sent.data, _stat(data, offset)), offset + _STAT.size


def _names(data: bytes, offset: int) -> tuple[list[str], int]:
    names, end = _NAMES.parse(data, offset)
    if None in names or end > len(data):  # a length below 0 means null
        raise struct.error("a list of names is cut short, or has a null")
    return sorted(names), end


def full(path: str, root: str) -> str:
    """The path as the server knows it."""
    return root + path if path != "/" else root or "/"


def close_session() -> Call[None]:
    """End the session: its ephemeral nodes vanish at once."""
    return Call("closeSession", "", protocol.CloseRequest(), _nothing, is_write=True)


def wire_get(path: str, root: str = "") -> Call[Versioned]:
    """Data and Stat of a node."""

    def decode(data: bytes, offset: int) -> Versioned:
        value, offset = _buffer(data, offset)
        return Versioned(path, value, _stat(data, offset))

    return Call("get", path, get(full(path, root).encode()), decode)


def exists(path: str, root: str = "") -> Call[Stat]:
    """Stat of a node."""
    record = protocol.ExistsRequest(path=full(path, root), watch=False)
    return Call("exists", path, record, _stat)


def children(path: str, root: str = "") -> Call[list[str]]:
    """Sorted names of a node's children."""
    record = protocol.GetChildrenRequest(path=full(path, root), watch=False)
    return Call("children", path, record, lambda data, offset: _names(data, offset)[0])


def sync(path: str, root: str = "") -> Call[None]:
    """Bring the connected server up to what the leader has committed."""
    sent = full(path, root)

    def decode(data: bytes, offset: int) -> None:
        if (found := _text_of_wire(data, offset)[0]) != sent:
            raise MismatchedReply(f"{_MISMATCH}: {found!r} in place of {sent!r}")

    return Call("sync", path, protocol.SyncRequest(path=sent), decode)


def ephemerals(prefix: str, root: str = "") -> Call[list[str]]:
    """Paths of this session's ephemeral nodes below ``prefix``."""

    def decode(data: bytes, offset: int) -> list[str]:
        return [path[len(root) :] for path in _names(data, offset)[0]]

    return Call("ephemerals", prefix, _GetEphemeralsRequest(prefix=full(prefix, root)), decode)


def add_watch(path: str, root: str = "") -> Call[None]:
    """A persistent recursive watch."""
    record = _AddWatchRequest(path=full(path, root), mode=_RECURSIVE)
    return Call("addWatch", path, record, _nothing)


def remove_watch(path: str, root: str = "") -> Call[None]:
    """End the watch of this session at a path."""
    record = protocol.RemoveWatchesRequest(path=full(path, root), type=_ANY_WATCH)
    return Call("removeWatches", path, record, _nothing)


def reconfig(joining: str, leaving: str, members: str, version: int) -> Call[tuple[bytes, Stat]]:
    """Change the members of the ensemble; the new configuration. ``version`` -1: whatever it is."""
    record = protocol.ReconfigRequest(
        joining_servers=joining,
        leaving_servers=leaving,
        new_members=members or None,
        current_config_id=version,
    )

    def decode(data: bytes, offset: int) -> tuple[bytes, Stat]:
        configuration, offset = _buffer(data, offset)
        return configuration, _stat(data, offset)

    return Call("reconfig", "/zookeeper/config", record, decode, is_write=True)


def wire_write(operation: Operation, acl: bytes, root: str = "") -> Call[tuple[Result, ...]]:
    """One operation by itself, as a transaction of one; creates come with the Stat."""

    def decode(data: bytes, offset: int) -> tuple[Result, ...]:
        match operation:
            case Create() as sent:
                return (_created(sent, root, data, offset)[0],)
            case SetData():
                return (_stat(data, offset),)
            case _:
                return (None,)

    record = write(operation, full(operation.path, root).encode(), acl)
    return Call(_WRITES[type(operation)], operation.path, record, decode, is_write=True)


def wire_multi(
    operations: Sequence[Operation], acl: bytes, root: str = ""
) -> Call[tuple[Result, ...]]:
    """All or nothing. The decoder raises a failure as `MultiFailed`, or the session's end."""

    def decode(data: bytes, offset: int) -> tuple[Result, ...]:
        return tuple(_multi_results(operations, data, offset, root))

    where = operations[0].path if operations else ""
    record = multi(operations, root.encode(), acl)
    return Call("multi", where, record, decode, is_write=True)


def _multi_results(
    operations: Sequence[Operation], data: bytes, offset: int, root: str
) -> list[Result]:
    results: list[Result] = []
    failure: errors.MultiFailed | None = None
    for index, operation in enumerate(operations):
        kind, is_end, _error = _MULTI_HEADER.unpack_from(data, offset)
        offset += _MULTI_HEADER.size
        if kind == _ERROR and not is_end:
            # Operations before the culprit have error 0, those after it RuntimeInconsistency (docs:
            # zookeeper-wire).
            (code,) = _LENGTH.unpack_from(data, offset)
            offset += _LENGTH.size
            if code and failure is None:
                cause = error_of(code, operation.path)
                if isinstance(cause, errors.SessionError):
                    # The server has ended the session, or another connection has it: it reports
                    # that in the first result, not in the header.
                    raise cause
                failure = errors.MultiFailed(index, operation.path, cause)
        elif kind != RESULTS[type(operation)]:
            raise MismatchedReply(f"{_MISMATCH}: result {index} is of type {kind}")
        elif isinstance(operation, Create):
            created, offset = _created(operation, root, data, offset)
            results.append(created)
        elif isinstance(operation, SetData):
            results.append(_stat(data, offset))
            offset += _STAT.size
        else:
            results.append(None)
    if not _MULTI_HEADER.unpack_from(data, offset)[1]:
        raise MismatchedReply(f"{_MISMATCH}: more than {len(operations)} results")
    if failure is not None:
        raise failure
    return results


def wire_multi_read(reads: Sequence[Read], root: str = "") -> Call[list[Answer]]:
    """Several reads in one request; each result is independent."""

    def decode(data: bytes, offset: int) -> list[Answer]:
        return _read_results(reads, data, offset)

    where = reads[0].path if reads else ""
    return Call("getMany", where, multi_read(reads, root.encode()), decode)


def _read_results(reads: Sequence[Read], data: bytes, offset: int) -> list[Answer]:
    # The busiest loop of the client: less than 1 us a node, with the tuples made directly.
    results: list[Answer] = []
    add, head, stat, new = results.append, _READ_HEAD.unpack_from, _STAT.unpack_from, tuple.__new__
    for read in reads:
        # The first number of each body: a length, a number of names, or an error code.
        kind, number = head(data, offset)
        start = offset + _READ_HEAD.size
        if kind == GET_DATA:
            end = start + number if number > 0 else start
            found = new(Stat, stat(data, end))
            is_stat = read.aspect is Aspect.STAT
            add(found if is_stat else new(Versioned, (read.path, data[start:end], found)))
            offset = end + _STAT.size
        elif kind == GET_CHILDREN:
            names, offset = _names(data, offset + _MULTI_HEADER.size)
            add(names)
        else:
            error = error_of(number, read.path)
            absent: list[str] | None = [] if read.aspect is Aspect.CHILDREN else None
            add(absent if isinstance(error, errors.NoNode) else error)
            offset = start
    return results


def error_of(code: int, path: str) -> errors.StoreError:
    """Our error for a server's code; unknown codes keep their number."""
    kind, text = _ERRORS.get(code, (errors.StoreError, f"ZooKeeper error {code}"))
    return kind(f"{path}: {text}" if path else text)
