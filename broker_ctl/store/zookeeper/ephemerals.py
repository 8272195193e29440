"""Lists a session's ephemeral nodes where getEphemerals would exceed the largest reply."""

from collections.abc import Callable
from typing import Final

from broker_ctl import errors
from broker_ctl.store.interface import Aspect, BulkStore, Read, Stat

_MOST_READS: Final = 64


async def own_ephemerals(
    store: BulkStore, prefix: str, deadline_s: Callable[[], float]
) -> list[str]:
    """Sorted paths at or below ``prefix``, by looking at every node there.

    ``deadline_s`` says until when a request that is made now must have ended.
    """
    session_id, waiting, found = store.session_id, [prefix], list[str]()
    while waiting:
        reads = [Read(path, Aspect.STAT) for path in waiting[-_MOST_READS:]]
        del waiting[-_MOST_READS:]
        for read, stat in zip(reads, await store.read_many(reads, deadline_s()), strict=True):
            if isinstance(stat, errors.StoreError):
                raise stat
            if not isinstance(stat, Stat):
                continue  # deleted meanwhile
            if stat.ephemeral_owner == session_id:
                found.append(read.path)
            elif stat.children_count:
                parent = read.path.rstrip("/")
                waiting += [f"{parent}/{name}" for name in await store.children(read.path)]
    return sorted(found)
