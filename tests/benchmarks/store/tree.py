"""Nodes that the measurements need, laid and removed in batches, and what the servers counted."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from broker_ctl.lab.embedded.ports import LOOPBACK
from broker_ctl.store.interface import Create, Delete, Operation
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore

VALUE_BYTES: Final = 256
_MOST_OPERATIONS: Final = 500
_MOST_BYTES: Final = 400_000
_AT_ONCE: Final = 4


@asynccontextmanager
async def direct_store(hosts: str, chroot: str = "") -> AsyncIterator[ZooKeeperStore]:
    """Our own client without lanes, connected."""
    store = ZooKeeperStore(StoreOptions(hosts, chroot))
    await store.start()
    try:
        await store.wait_connected()
        yield store
    finally:
        await store.close()


def value(index: int) -> bytes:
    """The value of node ``index`` of a measurement, unlike that of any other."""
    return f"{index:08d}".encode().ljust(VALUE_BYTES, b".")


def keys(root: str, count: int) -> list[str]:
    """Paths of the nodes of a measurement."""
    return [f"{root}/{index:05d}" for index in range(count)]


async def lay(store: ZooKeeperStore, nodes: Iterable[tuple[str, bytes]]) -> None:
    """Create the nodes in this order."""
    await _carry_out(store, (Create(path, data) for path, data in nodes))


async def remove(store: ZooKeeperStore, paths: Iterable[str]) -> None:
    """Delete the nodes in this order."""
    await _carry_out(store, (Delete(path) for path in paths))


async def _carry_out(store: ZooKeeperStore, operations: Iterable[Operation]) -> None:
    parts = _parts(operations)

    async def some() -> None:
        for part in parts:
            await store.multi(part)

    async with asyncio.TaskGroup() as group:
        for number in range(_AT_ONCE):
            group.create_task(some(), name=f"lay {number}")


def _parts(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    part: list[Operation] = []
    size_bytes = 0
    for operation in operations:
        part.append(operation)
        size_bytes += len(operation.path) * 2 + len(getattr(operation, "data", b""))
        if len(part) == _MOST_OPERATIONS or size_bytes >= _MOST_BYTES:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


@dataclass(frozen=True, slots=True)
class Counted:
    """Operations on nodes below one top node, as one server's tree has counted them.

    Each part of a request with many parts counts, as it does where it came alone.
    """

    reads: int
    writes: int

    def __sub__(self, earlier: "Counted") -> "Counted":
        return Counted(self.reads - earlier.reads, self.writes - earlier.writes)


async def counted(port: int, top: str) -> Counted:
    """Ask the server on ``port`` about ``/top`` (``mntr``), once it is up to date."""
    async with direct_store(f"{LOOPBACK}:{port}") as store:
        # A follower may still have to apply what others wrote, which would be counted later.
        await store.sync("/")
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(b"mntr")
        lines = (await reader.read()).decode().splitlines()
    finally:
        writer.close()
    found = dict(line.split("\t", 1) for line in lines if "\t" in line)
    reads, writes = (
        int(float(found.get(f"zk_cnt_{top}_{kind}_per_namespace", "0")))
        for kind in ("read", "write")
    )
    return Counted(reads, writes)
