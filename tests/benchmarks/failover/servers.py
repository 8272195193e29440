"""What the servers counted."""

import asyncio
from collections.abc import Sequence
from typing import Final

from broker_ctl.lab.embedded.ports import LOOPBACK
from tests.benchmarks.store.tree import Counted, counted

_WATCHES: Final = "zk_watch_count"


async def operations(ports: Sequence[int], top: str) -> int:
    """Operations below ``/top`` so far.

    A write is done by every server and counts once; a read counts where it was asked.
    """
    by_server: list[Counted] = [await counted(port, top) for port in ports]
    return max(one.writes for one in by_server) + sum(one.reads for one in by_server)


async def watches(ports: Sequence[int]) -> int:
    """The number of watches of all clients of all servers."""
    return sum([await _watches(port) for port in ports])


async def _watches(port: int) -> int:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(b"mntr")
        lines = (await reader.read()).decode().splitlines()
    finally:
        writer.close()
    return next(int(line.split("\t")[1]) for line in lines if line.startswith(f"{_WATCHES}\t"))
