"""The peer without a broker: the same transactions on one socket, prepared before the clock starts.

As many as the broker sends, of as many creations each and as many at once, beside the same brokers
and clients. What is left of the broker's time is its own.
"""

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aiozk.protocol.acl import ACL

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, Create, CreateMode
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.connection import Frames
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.store.processes import answer, measured_apart, task_of_this_process

PER_NAMESPACE: Final = 250
# As `broker_ctl.broker.ownership.reacquire` sends them.
BATCH: Final = 128
IN_FLIGHT: Final = 4
BROKER_ID: Final = "127.0.0.1:2"
_READ_BYTES: Final = 1 << 18
_SESSION_MS: Final = 6_000
_LIMIT_S: Final = 60.0


def rings_of(bundles: int) -> list[Ring]:
    """Of namespaces whose bundles nobody else takes."""
    return [
        Ring.even(Namespace("public", f"raw{number}"), min(PER_NAMESPACE, bundles - start))
        for number, start in enumerate(range(0, bundles, PER_NAMESPACE))
    ]


async def prepare_raw(store: ZooKeeperStore, bundles: int) -> None:
    """Create what the transactions check, and the parents of what they create."""
    for ring in rings_of(bundles):
        record = LocalPolicies(ring.boundaries).encode()
        await store.create(paths.local_policies(ring.namespace), record, make_parents=True)
        # Servers delete containers that have become empty.
        await store.create(paths.ownership_of(ring.namespace), make_parents=True)


async def measure_raw(server: str, chroot: str, bundles: int) -> float:
    """Seconds from the first request until the last reply, in a process of its own."""
    task = {"server": server, "chroot": chroot, "bundles": bundles}
    return float((await measured_apart(__name__, task))["took_s"])


def _calls(chroot: str, bundles: int) -> Iterator[wire.Call[Any]]:
    urls = BrokerUrls(BROKER_ID, f"http://{BROKER_ID}", native_url="pulsar://127.0.0.1:6650")
    data = NamespaceEphemeralData(urls).encode()
    wanted = ((ring.namespace, bundle) for ring in rings_of(bundles) for bundle in ring.bundles)
    everybody = ACL.make("world", "anyone", *(True,) * 5)
    acl = wire.pack_acl([everybody])
    while batch := list(islice(wanted, BATCH)):
        checks = [
            Check(paths.local_policies(namespace), 0)
            for namespace in dict.fromkeys(namespace for namespace, _ in batch)
        ]
        creates = [
            Create(paths.ownership(bundle), data, CreateMode.EPHEMERAL) for _, bundle in batch
        ]
        yield wire.wire_multi([*checks, *creates], acl, chroot)


class _Line:
    """A blocking connection with a session of its own."""

    def __init__(self, server: str) -> None:
        host, _, port = server.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = Frames(1 << 24)
        self._read: list[bytes] = []
        self.send(wire.frame(wire.connect(_SESSION_MS, 0, b"\0" * 16, 0), None))
        assert wire.handshake(self.receive()).session_id

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """The next frame."""
        while not self._read:
            data = self._socket.recv(_READ_BYTES)
            assert data, "the server closed the connection"
            self._read = list(self._frames.cut(data))[::-1]
        return self._read.pop()

    def close(self, xid: int) -> None:
        """End the session, and its nodes with it."""
        self.send(wire.frame(wire.close_session().record, xid))
        self.receive()
        self._socket.close()


def _work(server: str, calls: Sequence[wire.Call[Any]]) -> Mapping[str, Any]:
    frames = [wire.frame(call.record, xid) for xid, call in enumerate(calls, start=1)]
    line = _Line(server)
    replies: list[bytes] = []
    began_s = time.perf_counter()
    for number, frame in enumerate(frames):
        if number >= IN_FLIGHT:
            replies.append(line.receive())
        line.send(frame)
    replies += [line.receive() for _ in frames[:IN_FLIGHT]]
    took_s = time.perf_counter() - began_s
    line.close(len(calls) + 1)
    for call, reply in zip(calls, replies, strict=True):
        _, _, error = wire.reply_header(reply)
        assert not error
        # Raises for an operation that was refused.
        call.decode(reply, wire.REPLY_HEADER_BYTES)
    return {"took_s": took_s}


if __name__ == "__main__":
    given = task_of_this_process()
    answer(_work(given["server"], list(_calls(given["chroot"], given["bundles"]))))
