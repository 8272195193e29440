"""A day of a fleet: quiet hours, restarts, deaths, a zone lost, an ensemble restart."""

import asyncio
import contextlib
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from tests.deterministic.fleet.counts import rates
from tests.deterministic.fleet.daemon import GRACE_S, TICK_S, TIMEOUT_S, FleetDaemon
from tests.deterministic.fleet.fleet import Fleet

# I6: session timeout + tick + reclaim grace + 2 s.
RECOVERY_S: Final = TIMEOUT_S + TICK_S + GRACE_S + 2.0
_HOUR_S: Final = 3600.0
_START_LIMIT_S: Final = 900.0
_START_BATCH: Final = 50
_DOWN_S: Final = 120.0
_ELECTION_S: Final = 5.0
_SHARE_RESTARTED: Final = 20
_SHARE_DEAD: Final = 50
_SETTLE_LIMIT_S: Final = 600.0
_LOOK_S: Final = 2.0

_STOP_LIMIT_S: Final = 120.0

Say = Callable[[str], None]


def _has_ended(daemon: FleetDaemon) -> bool:
    return not daemon.is_running


class Day:
    """Runs it, and measures each part.

    Args:
        hours: how long it is after the start; the parts between the faults share them.
    """

    def __init__(self, fleet: Fleet, hours: float, say: Say) -> None:
        self._fleet = fleet
        self._length_s = hours * _HOUR_S
        self._say = say
        self.parts: list[dict[str, Any]] = []

    async def run(self) -> None:
        """From the first start to the end."""
        fleet = self._fleet
        fleet.create_namespaces()
        background = [
            fleet.driver.create_task(fleet.judge_answers(), name="answers"),
            fleet.driver.create_task(fleet.look_up_now_and_then(), name="lookups"),
        ]
        try:
            await self._part("start", self._start)
            # What was made until now lives as long as the fleet.
            gc.collect()
            gc.freeze()
            faults = (
                ("restarts", self._restart_some),
                ("deaths", self._kill_some),
                ("leader dies", self._kill_leader),
                ("zone lost", self._lose_zone),
                ("ensemble restarts", self._restart_ensemble),
            )
            quiet_s = self._length_s / (len(faults) + 1)
            for name, fault in faults:
                await self._part("quiet", lambda: self._rest(quiet_s))
                await self._part(name, fault)
            await self._part("quiet", lambda: self._rest(quiet_s))
        finally:
            for task in background:
                task.cancel()

    async def _part(self, name: str, act: Callable[[], Awaitable[dict[str, Any] | None]]) -> None:
        fleet, turns = self._fleet, self._fleet.turns
        before, cpu_s = fleet.world.traffic.row(), turns.spent_s()
        began_s, wall_s, changes = turns.now_s, time.perf_counter(), len(fleet.observer.reigns)
        process_s = time.process_time()
        leaders = {daemon.broker_id for daemon in fleet.leaders}
        found = await act() or {}
        took_s = max(turns.now_s - began_s, 1e-6)
        leaders |= {daemon.broker_id for daemon in fleet.leaders}
        spent_s = {k: v - cpu_s.get(k, 0.0) for k, v in turns.spent_s().items()}
        own = [spent_s.get(daemon.broker_id, 0.0) for daemon in fleet.daemons]
        rest = [spent_s.get(d.broker_id, 0.0) for d in fleet.daemons if d.broker_id not in leaders]
        minutes = took_s / 60
        self.parts.append(
            {
                "part": name,
                "virtual_s": round(took_s, 1),
                "wall_s": round(time.perf_counter() - wall_s, 1),
                "cpu_s": round(time.process_time() - process_s, 1),
                **found,
                "acquisitions": len(fleet.observer.reigns) - changes,
                "cpu_ms_a_minute": {
                    "leader": round(sum(spent_s.get(b, 0.0) for b in leaders) * 1000 / minutes, 2),
                    "follower": round(statistics.mean(rest or [0.0]) * 1000 / minutes, 3),
                    "servers": round(spent_s.get("servers", 0.0) * 1000 / minutes, 2),
                    "all": round(sum(own) * 1000 / minutes, 1),
                },
                "watches": sum(
                    len(client.roots)
                    for server in fleet.ensemble.servers
                    for client in server.clients
                ),
                "a_second": rates(before, fleet.world.traffic.row(), took_s),
            }
        )
        gc.collect()
        spent = f"{self.parts[-1]['wall_s']} s ({self.parts[-1]['cpu_s']} s of the processor)"
        self._say(f"{name}: {took_s:.0f} s in {spent}, {found}")

    # Parts.

    async def _start(self) -> dict[str, Any]:
        fleet = self._fleet
        for number, daemon in enumerate(fleet.daemons):
            daemon.start()
            if number % _START_BATCH == _START_BATCH - 1:
                await asyncio.sleep(1.0)
        if not await fleet.until(lambda: all(d.is_ready for d in fleet.daemons), _START_LIMIT_S):
            fleet.observer.complain("I6: not all daemons are ready", fleet.turns.now_s)
        ready_s = fleet.turns.now_s
        took_s = await self._until_served(_START_LIMIT_S)
        return {"ready_s": round(ready_s - 1000, 1), "served_s": took_s}

    async def _rest(self, quiet_s: float) -> None:
        await asyncio.sleep(quiet_s)

    async def _restart_some(self) -> dict[str, Any]:
        """One after another, as an operator does."""
        chosen = self._choose(_SHARE_RESTARTED)
        for daemon in chosen:
            daemon.stop()
            if not await self._fleet.until(partial(_has_ended, daemon), _STOP_LIMIT_S):
                self._complain(f"I10: {daemon.broker_id} does not stop")
            await self._start_again([daemon])
        return {"daemons": len(chosen), **await self._recovered()}

    async def _kill_some(self) -> dict[str, Any]:
        return await self._kill(self._choose(_SHARE_DEAD))

    async def _kill_leader(self) -> dict[str, Any]:
        return await self._kill(self._fleet.leaders)

    async def _lose_zone(self) -> dict[str, Any]:
        return await self._kill(self._fleet.zones[0])

    async def _kill(self, chosen: list[FleetDaemon]) -> dict[str, Any]:
        """All of them at once; they are back after a while."""
        for daemon in chosen:
            daemon.kill()
        found = {"daemons": len(chosen), **await self._recovered()}
        await asyncio.sleep(_DOWN_S)
        await self._start_again(chosen)
        return found

    async def _restart_ensemble(self) -> dict[str, Any]:
        """All servers at once: every connection is lost, and every session lives on."""
        fleet = self._fleet
        before = len(fleet.observer.reigns)
        began_s = fleet.turns.now_s
        fleet.ensemble.change_leader(_ELECTION_S)
        await asyncio.sleep(_ELECTION_S)
        is_ready = await fleet.until(lambda: all(d.is_ready for d in fleet.daemons), RECOVERY_S)
        if not is_ready or fleet.unserved():
            self._complain("I6: not all is served after the servers restarted")
        took_s = round(fleet.turns.now_s - began_s, 1)
        return {"recovery_s": took_s, "moved_by_it": len(fleet.observer.reigns) - before}

    def _choose(self, share: int) -> list[FleetDaemon]:
        count = max(1, len(self._fleet.daemons) // share)
        return self._fleet.rng.sample(self._fleet.daemons, count)

    async def _start_again(self, chosen: list[FleetDaemon]) -> None:
        for daemon in chosen:
            daemon.start()
        if not await self._fleet.until(lambda: all(d.is_ready for d in chosen), _SETTLE_LIMIT_S):
            self._complain(f"I6: {len(chosen)} daemons do not start")

    async def _recovered(self) -> dict[str, Any]:
        served_s = await self._until_served(RECOVERY_S)
        return {"recovery_s": served_s}

    async def _until_served(self, limit_s: float) -> float:
        """Clients of the bundles that are not served ask until they are."""
        fleet, began_s = self._fleet, self._fleet.turns.now_s
        async with asyncio.TaskGroup() as judging:
            judge = judging.create_task(self._judge_served(limit_s), name="judge of I6")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_START_LIMIT_S):
                    while missing := fleet.unserved():
                        await fleet.ask_until_served(missing)
            judge.cancel()
        return round(fleet.turns.now_s - began_s, 1)

    async def _judge_served(self, limit_s: float) -> None:
        await asyncio.sleep(limit_s)
        if missing := self._fleet.unserved():
            self._complain(f"I6: {len(missing)} bundles are not served after {limit_s:g} s")

    async def settle(self) -> None:
        """In the end everything is as it must be."""
        fleet = self._fleet
        end_s = fleet.turns.now_s + RECOVERY_S
        while wrong := list(fleet.unsettled()):
            if fleet.turns.now_s > end_s:
                for said in wrong:
                    self._complain(said)
                return
            await asyncio.sleep(_LOOK_S)

    def _complain(self, said: str) -> None:
        self._fleet.observer.complain(said, self._fleet.turns.now_s)
