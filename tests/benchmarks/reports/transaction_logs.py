"""The servers' transaction logs: reports of 100,000 bundles fill 60 GB in an hour."""

import asyncio
from pathlib import Path
from typing import Final

_EVERY_S: Final = 60.0
# By number of files: one of them is being written.
_KEPT: Final = 2
# ZooKeeper begins a new log, and takes a snapshot, after half of that or later.
LOG_BYTES: Final = 1 << 30


async def purge(directory: Path) -> None:
    """Delete all but the newest logs and snapshots below a directory, until cancelled.

    ZooKeeper itself does so once an hour at most. No server of a benchmark is started again, and
    one that is behind gets a snapshot from the others.
    """
    while True:
        await asyncio.sleep(_EVERY_S)
        await asyncio.to_thread(delete_old, directory)


def delete_old(directory: Path) -> None:
    """Delete them once."""
    for version in directory.rglob("version-2"):
        for kind in ("log.*", "snapshot.*"):
            for old in sorted(version.glob(kind), key=_zxid_of)[:-_KEPT]:
                old.unlink()


def _zxid_of(path: Path) -> int:
    return int(path.suffix[1:], 16)
