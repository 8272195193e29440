"""Many requests with a limited number in flight (docs: kafka-pipelining)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from broker_ctl.errors import StoreError
from broker_ctl.store.interface import MetadataStore, Versioned

T = TypeVar("T")

# Enough for the servers to have always one to work on, few enough for heartbeats to get through.
IN_FLIGHT: Final = 6
# Nodes that are read together.
READS: Final = 128

# The node, None where there is none, or why it cannot be read.
Found = Versioned | StoreError | None


async def pipelined(
    items: Iterable[T], work: Callable[[T], Awaitable[None]], name: str, width: int = IN_FLIGHT
) -> None:
    """Do ``work`` for each item, begun in their order; the first error ends all of it."""
    rest = iter(items)
    workers: list[asyncio.Task[None]] = []
    errors: list[Exception] = []

    async def keep_working() -> None:
        try:
            for item in rest:
                await work(item)
                # An answer that was there already must not keep everybody else waiting.
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001  # raised below
            errors.append(error)
            for worker in workers:
                if worker is not asyncio.current_task():
                    worker.cancel()

    # A group that meets an error forgets that it was cancelled itself meanwhile: it meets none.
    async with asyncio.TaskGroup() as group:
        workers += [
            group.create_task(keep_working(), name=f"{name} {number}") for number in range(width)
        ]
    if errors:
        raise errors[0]


async def read_nodes(store: MetadataStore, paths: Sequence[str]) -> list[Found]:
    """The nodes of one batch, in order; one that cannot be read keeps no other from it.

    Raises:
        StoreError: one that trying again can help.
    """
    try:
        return list(await store.get_many(paths))
    except StoreError as error:
        if error.can_retry:
            raise
        if len(paths) == 1:
            return [error]
    # One of them may not be read: each by itself.
    return [node for path in paths for node in await read_nodes(store, [path])]
