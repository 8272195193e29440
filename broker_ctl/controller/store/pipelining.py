"""Many requests with a limited number in flight (docs: kafka-pipelining)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from broker_ctl.errors import StoreError
from broker_ctl.store.interface import MetadataStore, Versioned

T = TypeVar("T")

# Enough to keep the servers busy, few enough for heartbeats to get through.
IN_FLIGHT: Final = 4
# Nodes read in one batch.
READS: Final = 128
# Partitions of one turn of the loop: a few milliseconds.
_PARTITIONS_A_TURN: Final = 1000

# The node, None if it does not exist, or the error of reading it.
Found = Versioned | StoreError | None


async def pipelined(
    items: Iterable[T], work: Callable[[T], Awaitable[None]], name: str, width: int = IN_FLIGHT
) -> None:
    """Run ``work`` for each item, started in their order; the first error cancels all of it."""
    rest = iter(items)
    workers: list[asyncio.Task[None]] = []
    errors: list[Exception] = []

    async def keep_working() -> None:
        try:
            for item in rest:
                await work(item)
                # Work that completes without waiting must not starve the event loop.
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001  # raised below
            errors.append(error)
            for worker in workers:
                if worker is not asyncio.current_task():
                    worker.cancel()

    # A task group that handles an error loses a concurrent cancellation: so it gets none.
    async with asyncio.TaskGroup() as group:
        workers += [
            group.create_task(keep_working(), name=f"{name} {number}") for number in range(width)
        ]
    if errors:
        raise errors[0]


class Pauses:
    """Lets the loop go on from time to time in work that does not wait."""

    def __init__(self) -> None:
        self._partitions = 0

    async def after(self, partitions: int) -> None:
        """This many partitions were handled since the last call."""
        self._partitions += partitions
        if self._partitions >= _PARTITIONS_A_TURN:
            self._partitions = 0
            await asyncio.sleep(0)


async def read_nodes(store: MetadataStore, paths: Sequence[str]) -> list[Found]:
    """Read a batch of nodes, in order; an unreadable node does not affect the others.

    Raises:
        StoreError: an error that a retry may resolve.
    """
    try:
        return list(await store.get_many(paths))
    except StoreError as error:
        if error.can_retry:
            raise
        if len(paths) == 1:
            return [error]
    # One of them cannot be read: read each by itself.
    return [node for path in paths for node in await read_nodes(store, [path])]
