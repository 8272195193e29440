"""ZooKeeper's requests and replies as bytes.

Requests are aiozk's records; the ones that it lacks are declared here in its terms: addWatch,
setWatches2, multiRead, getEphemerals, container and TTL nodes. Replies are decoded straight into
the store's values. Reference: metadata-store 6.5, 10.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from aiozk import protocol
from aiozk.protocol.acl import ACL
from aiozk.protocol.primitives import Int, Long, UString, Vector
from aiozk.protocol.request import Request

from broker_ctl import errors
from broker_ctl.store.interface import (
    Change,
    Check,
    Create,
    CreateMode,
    Delete,
    Notification,
    Operation,
    Result,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.zookeeper.codes import error_of

T_co = TypeVar("T_co", covariant=True)

XID_EVENT: Final = -1
XID_PING: Final = -2
XID_AUTH: Final = -4
XID_SET_WATCHES: Final = -8

_REPLY_HEADER = struct.Struct("!iqi")
_LENGTH = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_MULTI_HEADER = struct.Struct("!i?i")
_EVENT = struct.Struct("!ii")
_NAMES = Vector.of(UString)

_RECURSIVE: Final = 1
_ERROR: Final = -1
_SET_DATA: Final = 5
_FLAGS: Final = {
    CreateMode.PERSISTENT: 0,
    CreateMode.EPHEMERAL: 1,
    CreateMode.SEQUENTIAL: 2,
    CreateMode.EPHEMERAL_SEQUENTIAL: 3,
    CreateMode.CONTAINER: 4,
    CreateMode.TTL: 5,
}


class _CreateContainerRequest(protocol.CreateRequest):
    # aiozk sends flag 4 under opcode 1, which makes a plain persistent node.
    opcode = 19


class _CreateTtlRequest(protocol.CreateRequest):
    opcode = 21
    parts = (*protocol.CreateRequest.parts, ("ttl", Long))


class _MultiReadRequest(protocol.TransactionRequest):
    opcode = 22


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


class ReplyHeader(NamedTuple):
    """What stands before each reply."""

    xid: int
    zxid: int
    error: int


@dataclass(frozen=True, slots=True)
class Handshake:
    """A server's answer to a connect request; ``session_id`` 0 means that the session is gone."""

    timeout_ms: int
    session_id: int
    password: bytes


REPLY_HEADER_BYTES: Final = _REPLY_HEADER.size


def frame(record: Request, xid: int | None) -> bytes:
    """Length and record, ready to be written."""
    body = record.serialize(xid)
    return _LENGTH.pack(len(body)) + body


def reply_header(data: bytes) -> ReplyHeader:
    """The header of a reply frame."""
    return ReplyHeader(*_REPLY_HEADER.unpack_from(data, 0))


def connect(
    timeout_ms: int,
    session_id: int,
    password: bytes,
    last_zxid: int,
) -> Request:
    """The first frame on a connection. ``last_zxid`` keeps lagging servers from taking us."""
    return protocol.ConnectRequest(
        protocol_version=0,
        last_seen_zxid=last_zxid,
        timeout=timeout_ms,
        session_id=session_id,
        password=password,
        read_only=False,
    )


_CONNECT_REPLY = struct.Struct("!iiqi")


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


def event(data: bytes, header: ReplyHeader) -> Notification | None:
    """Decode a watch event; None for session states, which the socket tells better."""
    kind, _state = _EVENT.unpack_from(data, REPLY_HEADER_BYTES)
    path, _ = UString.parse(data, REPLY_HEADER_BYTES + _EVENT.size)
    try:
        return Notification(Change(kind), path, header.zxid)
    except ValueError:
        return None


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
    return Stat(*_STAT.unpack_from(data, offset))


def _buffer(data: bytes, offset: int) -> tuple[bytes, int]:
    (size,) = _LENGTH.unpack_from(data, offset)
    start = offset + _LENGTH.size
    end = start + max(size, 0)
    return data[start:end], end


def _created(sent: bytes) -> Callable[[bytes, int], tuple[Versioned, int]]:
    def decode(data: bytes, offset: int) -> tuple[Versioned, int]:
        path, offset = UString.parse(data, offset)
        return Versioned(path, sent, _stat(data, offset)), offset + _STAT.size

    return decode


def close_session() -> Call[None]:
    """End the session: its ephemeral nodes vanish at once."""
    return Call("closeSession", "", protocol.CloseRequest(), _nothing, is_write=True)


def get(path: str) -> Call[Versioned]:
    """Data and Stat of a node."""

    def decode(data: bytes, offset: int) -> Versioned:
        value, offset = _buffer(data, offset)
        return Versioned(path, value, _stat(data, offset))

    return Call("get", path, protocol.GetDataRequest(path=path, watch=False), decode)


def exists(path: str) -> Call[Stat]:
    """Stat of a node."""
    return Call("exists", path, protocol.ExistsRequest(path=path, watch=False), _stat)


def children(path: str) -> Call[list[str]]:
    """Names of a node's children, unordered."""

    def decode(data: bytes, offset: int) -> list[str]:
        names, _ = _NAMES.parse(data, offset)
        return names

    return Call("children", path, protocol.GetChildrenRequest(path=path, watch=False), decode)


def sync(path: str) -> Call[None]:
    """Bring the connected server up to what the leader has committed."""
    return Call("sync", path, protocol.SyncRequest(path=path), _nothing)


def ephemerals(prefix: str) -> Call[list[str]]:
    """Paths of this session's ephemeral nodes below ``prefix``."""

    def decode(data: bytes, offset: int) -> list[str]:
        paths, _ = _NAMES.parse(data, offset)
        return paths

    return Call("ephemerals", prefix, _GetEphemeralsRequest(prefix=prefix), decode)


def add_watch(root: str) -> Call[None]:
    """A persistent recursive watch."""
    return Call("addWatch", root, _AddWatchRequest(path=root, mode=_RECURSIVE), _nothing)


def _record(operation: Operation, acl: Sequence[ACL]) -> Request:
    path = operation.path
    match operation:
        case Create(data=data, mode=mode):
            common = {"path": path, "data": data, "acl": list(acl), "flags": _FLAGS[mode]}
            if mode is CreateMode.CONTAINER:
                return _CreateContainerRequest(**common)
            if mode is CreateMode.TTL:
                return _CreateTtlRequest(**common, ttl=operation.ttl_ms)
            return protocol.Create2Request(**common)
        case SetData(data=data, version=version):
            return protocol.SetDataRequest(path=path, data=data, version=version)
        case Delete(version=version):
            return protocol.DeleteRequest(path=path, version=version)
        case Check(version=version):
            return protocol.CheckVersionRequest(path=path, version=version)


def create(operation: Create, acl: Sequence[ACL]) -> Call[Versioned]:
    """Create a node; create2 and its kin answer with the Stat, whose czxid is the token."""
    decode = _created(operation.data)
    return Call(
        "create",
        operation.path,
        _record(operation, acl),
        lambda data, offset: decode(data, offset)[0],
        is_write=True,
    )


def set_data(operation: SetData) -> Call[Stat]:
    """Replace a node's data."""
    return Call("set", operation.path, _record(operation, ()), _stat, is_write=True)


def delete(operation: Delete) -> Call[None]:
    """Delete a node."""
    return Call("delete", operation.path, _record(operation, ()), _nothing, is_write=True)


def multi(operations: Sequence[Operation], acl: Sequence[ACL]) -> Call[tuple[Result, ...]]:
    """All or nothing. A failure is raised by the decoder as `MultiFailed`."""
    record = protocol.TransactionRequest()
    for operation in operations:
        record.add(_record(operation, acl))

    def decode(data: bytes, offset: int) -> tuple[Result, ...]:
        return tuple(_multi_results(operations, data, offset))

    where = operations[0].path if operations else ""
    return Call("multi", where, record, decode, is_write=True)


def _multi_results(operations: Sequence[Operation], data: bytes, offset: int) -> list[Result]:
    results: list[Result] = []
    failure: errors.MultiFailed | None = None
    for index, operation in enumerate(operations):
        kind, _done, _error = _MULTI_HEADER.unpack_from(data, offset)
        offset += _MULTI_HEADER.size
        if kind == _ERROR:
            # Before the culprit stand zeros, after it RuntimeInconsistency (reference 6.3).
            (code,) = _LENGTH.unpack_from(data, offset)
            offset += _LENGTH.size
            if code and failure is None:
                cause = error_of(code, operation.path)
                failure = errors.MultiFailed(index, operation.path, cause)
        elif isinstance(operation, Create):
            created, offset = _created(operation.data)(data, offset)
            results.append(created)
        elif kind == _SET_DATA:
            results.append(_stat(data, offset))
            offset += _STAT.size
        else:
            results.append(None)
    if failure is not None:
        raise failure
    return results


def multi_read(paths: Sequence[str]) -> Call[list[Versioned | None]]:
    """Several nodes in one request; each result stands for itself."""
    record = _MultiReadRequest()
    for path in paths:
        record.add(protocol.GetDataRequest(path=path, watch=False))

    def decode(data: bytes, offset: int) -> list[Versioned | None]:
        results: list[Versioned | None] = []
        for path in paths:
            kind, _done, _error = _MULTI_HEADER.unpack_from(data, offset)
            offset += _MULTI_HEADER.size
            if kind == _ERROR:
                (code,) = _LENGTH.unpack_from(data, offset)
                offset += _LENGTH.size
                error = error_of(code, path)
                if not isinstance(error, errors.NoNode):
                    raise error
                results.append(None)
            else:
                value, offset = _buffer(data, offset)
                results.append(Versioned(path, value, _stat(data, offset)))
                offset += _STAT.size
        return results

    return Call("getMany", paths[0] if paths else "", record, decode)
