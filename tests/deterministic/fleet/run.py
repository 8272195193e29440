"""A fleet from its start to its end, and what came of it as one row."""

import gc
import resource
import sys
import time
from typing import Any, Final

from tests.deterministic.fleet.day import Day
from tests.deterministic.fleet.fleet import Fleet
from tests.deterministic.run import hush

_YOUNG: Final = (100_000, 20, 1_000_000)
# The linearizability of acts and I11, I12 need other worlds than this one.
_CHECKED = ("I1a", "I1b", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I10")


def run(daemons: int, bundles: int, hours: float, seed: int) -> dict[str, Any]:
    """Plain JSON values."""
    hush()
    # All of it is collected between two parts, and never within one, which would take many times
    # as long as the part: only what was made just now.
    gc.set_threshold(*_YOUNG)
    began_s = time.perf_counter()
    fleet = Fleet(daemons, bundles, seed)
    day = Day(fleet, hours, lambda said: _progress(began_s, said))

    async def all_of_it() -> None:
        await day.run()
        await day.settle()

    try:
        fleet.run(all_of_it())
    except RuntimeError as error:
        fleet.observer.complain(f"I10: {error}", fleet.turns.now_s)
    observer = fleet.observer
    for loop in (fleet.driver, *(daemon.loop for daemon in fleet.daemons)):
        for failure in loop.failures[:1]:
            observer.complain(f"failed: {failure}", fleet.turns.now_s)
    return {
        "daemons": daemons,
        "bundles": bundles,
        "hours": hours,
        "seed": seed,
        "virtual_s": round(fleet.turns.now_s - 1000.0, 1),
        "wall_s": round(time.perf_counter() - began_s, 1),
        "cpu_s": round(time.process_time(), 1),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "checked": list(_CHECKED),
        "violations": observer.violations,
        "turns": fleet.turns.count,
        "acts": observer.acts,
        "refused_acts": observer.refused,
        "lookups": fleet.lookups,
        "znodes": sum(1 for _ in fleet.ensemble.tree.nodes()),
        "parts": day.parts,
    }


def _progress(began_s: float, said: str) -> None:
    sys.stderr.write(f"{time.perf_counter() - began_s:7.1f} s  {said}\n")
    sys.stderr.flush()
