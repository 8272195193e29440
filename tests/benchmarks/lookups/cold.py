"""Bundles have no owners yet, and clients look all of them up at the same time.

They are a process of their own, with connections of which each carries one request at a time, and
go wherever they are sent.
"""

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

from broker_ctl.codec import decode_object
from broker_ctl.core.model.names import Namespace
from broker_ctl.lab.embedded.ports import LOOPBACK
from broker_ctl.store import paths
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from tests.benchmarks.lookups import scene
from tests.benchmarks.lookups.cluster import Cluster
from tests.benchmarks.lookups.http_line import is_whole
from tests.benchmarks.store.figures import quantile_ms
from tests.benchmarks.store.processes import (
    answer,
    measured_apart,
    run_on_uvloop,
    task_of_this_process,
)

NAMESPACE: Final = "public/cold"
# As many as Pulsar's clients follow (maxLookupRedirects).
_MOST_HOPS: Final = 20
_LIMIT_S: Final = 60.0
_AGAIN_S: Final = 0.05
_LOCATION = re.compile(rb"\r\nLocation: ([^\r\n]+)\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cold:
    """Task of the clients: the ports at which they begin, and what they look up."""

    ports: Sequence[int]
    numbers: Sequence[int]


@dataclass(slots=True)
class _Site:
    """The idle connections to one broker."""

    port: int
    idle: deque["_Line"] = field(default_factory=deque)

    async def ask(self, request: bytes) -> bytes:
        """On a connection that no other request uses meanwhile."""
        line = self.idle.popleft() if self.idle else await self.connect()
        found = await line.ask(request)
        self.idle.append(line)
        return found

    async def connect(self) -> "_Line":
        """Open one more connection."""
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(_Line, LOOPBACK, self.port)
        return line


class _Line(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    async def ask(self, request: bytes) -> bytes:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._held += data
        if is_whole(self._held):
            assert self._answer is not None
            self._answer.set_result(self._held)
            self._held = b""

    def connection_lost(self, _: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("by the server"))


class _Clients:
    def __init__(self, ports: Sequence[int]) -> None:
        self._sites = {port: _Site(port) for port in ports}
        self.requests: Counter[str] = Counter()
        self.hops: Counter[int] = Counter()
        self.owners: dict[int, str] = {}
        self.took_s: list[float] = []

    async def connect(self, port: int) -> None:
        """Before the first lookup."""
        site = self._sites[port]
        site.idle.append(await site.connect())

    async def look_up(self, number: int, port: int) -> None:
        """Look up until a broker answers with the owner."""
        began_s = time.monotonic()
        while True:
            if await self._followed(number, port):
                break
            await asyncio.sleep(_AGAIN_S)
        self.took_s.append(time.monotonic() - began_s)

    async def _followed(self, number: int, port: int) -> bool:
        query = ""
        for hops in range(_MOST_HOPS + 1):
            request = scene.request(NAMESPACE, number, f"{LOOPBACK}:{port}", query)
            found = await self._sites[port].ask(request)
            status = found[9:12].decode()
            self.requests[status] += 1
            if status == "200":
                self.hops[hops] += 1
                body = decode_object(found.partition(b"\r\n\r\n")[2])
                self.owners[number] = str(body["brokerId"])
                return True
            if status != "307":
                assert status == "503", found
                return False
            location = _LOCATION.search(found)
            assert location is not None, found
            at = urlsplit(location[1].decode())
            assert at.port is not None
            port, query = at.port, f"?{at.query}"
        raise AssertionError(f"t{number} is sent in a circle")


async def _work(task: Cold) -> Mapping[str, Any]:
    clients = _Clients(task.ports)
    starts = [task.ports[at % len(task.ports)] for at in range(len(task.numbers))]
    for port in starts:
        await clients.connect(port)
    began_ms = time.time_ns() // 1_000_000
    async with asyncio.timeout(_LIMIT_S), asyncio.TaskGroup() as group:
        for number, port in zip(task.numbers, starts, strict=True):
            group.create_task(clients.look_up(number, port), name=f"t{number}")
    return {
        "began_ms": began_ms,
        "owners": {str(number): owner for number, owner in clients.owners.items()},
        "requests": dict(clients.requests),
        "hops": {str(hops): count for hops, count in sorted(clients.hops.items())},
        "answered_ms": {
            "p50": quantile_ms(clients.took_s, 0.5),
            "p99": quantile_ms(clients.took_s, 0.99),
            "max": quantile_ms(clients.took_s, 1.0),
        },
    }


async def measure_cold(cluster: Cluster, bundles: int) -> dict[str, Any]:
    """The object of the benchmark; times of owners are those of the servers' clocks.

    Raises:
        AssertionError: a client was sent to a broker that does not own its bundle.
    """
    await cluster.make_namespace(NAMESPACE, bundles)
    numbers = scene.one_in_each(NAMESPACE, bundles)
    ports = [int(daemon.broker_id.rpartition(":")[2]) for daemon in cluster.daemons]
    found = await measured_apart(__name__, asdict(Cold(ports, numbers)))
    parent = paths.ownership_of(Namespace(*NAMESPACE.split("/")))
    names = await cluster.store.children(parent)
    assert len(names) == bundles, f"{len(names)} of {bundles} are owned"
    read = await cluster.store.get_many([f"{parent}/{name}" for name in names])
    nodes = [node for node in read if node is not None]
    owners = Counter(
        NamespaceEphemeralData.decode(node.path, node.data).urls.broker_id for node in nodes
    )
    assert owners == Counter(found.pop("owners").values())
    came_ms = [node.stat.ctime_ms - found["began_ms"] for node in nodes]
    del found["began_ms"]
    return {
        "bundles": bundles,
        "all_owned_s": round(max(came_ms) / 1000, 3),
        "half_owned_s": round(sorted(came_ms)[len(came_ms) // 2] / 1000, 3),
        "owners": sorted(owners.values()),
        **found,
    }


if __name__ == "__main__":
    given = task_of_this_process()
    answer(run_on_uvloop(_work(Cold(**given))))
