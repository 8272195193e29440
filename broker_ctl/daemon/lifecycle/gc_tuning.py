"""Tuning of Python's garbage collector, which looks for reference cycles.

A leader replaces its knowledge of every bundle every few seconds. Triggered by the number of new
objects, Python would search all of it again and again, blocking the event loop for 0.2 s with
100,000 bundles. Reference counts free nearly everything, so a search at a long interval is enough
for the rest.
"""

import asyncio
import gc
from typing import Final

_EVERY_S: Final = 600.0
# Number of new objects that triggers a search of the young generation: 20,000 took 30 to 100 ms
# each time. Survivors wait for the periodic search: the middle generation alone, a million objects
# of two views, took 0.6 s.
_THRESHOLDS: Final = (5_000, 1_000_000, 1_000_000)


def freeze_garbage() -> None:
    """Exclude imported modules and built parts from searches: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


async def collect_periodically() -> None:
    """Search all generations at an interval, until cancelled."""
    while True:
        await asyncio.sleep(_EVERY_S)
        gc.collect()
