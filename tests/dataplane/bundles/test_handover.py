"""Two simulated brokers, their files, and the judge: the way a whole run is judged."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker_ctl.clock import SystemClock
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.dataplane.bundles.serve_log import (
    FileServeLog,
    OwnershipVerdict,
    judge,
    merge_logs,
    read_events,
)
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.simulation.workload.workload import Workload
from tests.support.time.waiting import eventually

(WHOLE,) = Ring.even(Namespace("public", "default"), 1).bundles
WORKLOAD = Workload.named("skewed", 1)
CLOCK = SystemClock()
TICK_S = 0.02


@asynccontextmanager
async def broker(path: Path) -> AsyncIterator[SimulatedDataPlane]:
    log = FileServeLog(path, 1 << 24)
    plane = SimulatedDataPlane(
        WORKLOAD, CLOCK, broker_id=path.name, rng=random.Random(1), serve_log=log, tick_s=TICK_S
    )
    await plane.start()
    plane.grant(1, CLOCK.now_s() + 60)
    yield plane
    await plane.stop()
    log.close()


async def acted(path: Path, times: int) -> None:
    """Wait until the broker of this file has acted this number of times from now on."""
    start = acts_in(path)
    await eventually(lambda: acts_in(path) >= start + times)


def acts_in(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def verdict(*paths: Path) -> OwnershipVerdict:
    expected = WORKLOAD.positions_with_traffic(0)
    return judge(merge_logs(map(read_events, paths)), TICK_S, expected)


async def test_a_handover_serves_every_topic_once(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker(a) as old, broker(b) as new:
        await old.load(WHOLE, 1)
        await acted(a, 5)
        done = await old.unload(WHOLE, 5)
        assert (done.topics_closed, done.is_confirmed) == (240, True)
        await new.load(WHOLE, 2)
        await acted(b, 15)
    found = verdict(a, b)
    assert found.faults == ()
    assert found.owners_ok


async def test_an_owner_that_was_not_stopped_is_found(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    async with broker(a) as old, broker(b) as new:
        await old.load(WHOLE, 1)
        await acted(a, 5)
        await new.load(WHOLE, 2)
        await acted(b, 5)
        await acted(a, 2)
    found = verdict(a, b)
    assert not found.owners_ok
    assert found.double_served == 240
