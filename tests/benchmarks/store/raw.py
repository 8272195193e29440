"""The limit of the machine: prepared frames on one socket, and nothing made of the replies.

A client that asks for what the others ask for, 200 operations in each request, cannot be faster:
its frames are packed before the clock starts, it has neither callers nor values, and of a reply it
reads only the length and whether the server refused it. What is left is the servers' work, and the
system calls.
"""

import socket
import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from broker_ctl.store.interface import Create, Operation, Read, SetData
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.access import NodeAccess
from tests.benchmarks.store.pacing import now_s

OPERATIONS: Final = 200
_LENGTH: Final = struct.Struct("!i")
_HEADER: Final = struct.Struct("!iqi")
_RECEIVED_BYTES: Final = 1 << 20
_LIMIT_S: Final = 60.0
# Of the first result of a multi: -1 where the whole was refused.
_FIRST_RESULT: Final = struct.Struct("!i")
_REFUSED: Final = -1


def frames(kind: str, work: Sequence[tuple[str, bytes]]) -> list[bytes]:
    """Requests of 200 operations each, ready to be sent."""
    coming = iter(work)
    found: list[bytes] = []
    while part := list(islice(coming, OPERATIONS)):
        found.append(wire.frame(_record(kind, part), len(found) + 1))
    return found


def _record(kind: str, part: Sequence[tuple[str, bytes]]) -> wire.Packed:
    if kind == "get":
        return wire.multi_read([Read(path) for path, _ in part], b"")
    operation = SetData if kind == "set" else Create
    operations: list[Operation] = [operation(path, data) for path, data in part]
    return wire.multi(operations, b"", wire.pack_acl(NodeAccess(is_restricted=False).acl))


class RawClient:
    """One session on a blocking socket."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), _LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_RECEIVED_BYTES)
        self._received = self._cut()
        self._socket.sendall(wire.frame(wire.connect(30_000, 0, bytes(16), 0), None))
        next(self._received)

    def close(self) -> None:
        """End the session."""
        self._socket.sendall(wire.frame(wire.close_session().record, 0))
        self._socket.close()

    def exchange(self, requests: Sequence[bytes], in_flight: int) -> float:
        """Send all, ``in_flight`` at once, and wait for the replies; how long it took, in s.

        Raises:
            RuntimeError: a request was refused.
        """
        coming = iter(requests)
        began_s = now_s()
        for request in islice(coming, in_flight):
            self._socket.sendall(request)
        for _ in requests:
            error, first = next(self._received)
            if error or first == _REFUSED:
                raise RuntimeError(f"the server refused a request: {error}, {first}")
            for request in islice(coming, 1):
                self._socket.sendall(request)
        return now_s() - began_s

    def _cut(self) -> Iterator[tuple[int, int]]:
        """The error and the kind of the first result of each reply; the first is the handshake."""
        buffer, filled, is_open = self._buffer, 0, False
        view = memoryview(buffer)
        while True:
            read = self._socket.recv_into(view[filled:])
            if not read:
                raise RuntimeError("the server closed the connection")
            filled += read
            start = 0
            while filled - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(buffer, start)
                end = start + _LENGTH.size + length
                if end > filled:
                    break
                if is_open:
                    _, _, error = _HEADER.unpack_from(buffer, start + _LENGTH.size)
                    after = start + _LENGTH.size + _HEADER.size
                    yield error, _FIRST_RESULT.unpack_from(buffer, after)[0] if after < end else 0
                else:
                    is_open = True
                    yield 0, 0
                start = end
            view[: filled - start] = view[start:filled]
            filled -= start
