"""Orphans: bundles of brokers that are gone, placed again without waiting for a lookup.

Only bundles that had traffic are placed: no client waits for the others. A broker whose session
expired may return within the grace period, and until then its bundles are reserved for it (I7).
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import Final

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.monitoring.stability_gate import StabilityGate
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Assign
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.errors import AuthorityLost, BrokerCtlError, Fenced, NoBroker

log = logging.getLogger(__name__)

_PER_ROUND: Final = 256
_SHORTEST_S: Final = 0.1
_LONGEST_S: Final = 10.0
# Minimum sleep of the loop, which prevents a busy loop.
_INSTANT_S: Final = 0.001


class Orphans:
    """The placement loop of one term."""

    def __init__(self, term: LeaderTerm, stability_gate: StabilityGate) -> None:
        self._dependencies = term.dependencies
        self._snapshot_builder = term.snapshot_builder
        self._memory = term.memory
        self._placements = term.placements
        self._executor = term.executor
        self._progress = term.orphan_progress
        self._stability_gate = stability_gate
        self._wake = asyncio.Event()
        self._present: set[str] = set()
        self._gone_s: dict[str, float] = {}

    async def run(self) -> None:
        """Check whenever a broker comes or goes, and now and then."""
        self._present = set(self._dependencies.registry.peers)
        stop_listening = self._dependencies.registry.listen(self._on_brokers_changed)
        try:
            while True:
                await self._stability_gate.wait_stable()
                await self._wait_graces()
                await self._place_all()
                await self._wait_change(_LONGEST_S)
        finally:
            stop_listening()

    def _on_brokers_changed(self) -> None:
        """Note which brokers went, and when."""
        now_s, present = self._dependencies.clock.now_s(), set(self._dependencies.registry.peers)
        self._gone_s |= dict.fromkeys(self._present - present, now_s)
        oldest_s = now_s - self._dependencies.rules().forget_s
        self._gone_s = {
            broker_id: gone_s
            for broker_id, gone_s in self._gone_s.items()
            if broker_id not in present and gone_s > oldest_s
        }
        self._present = present
        self._wake.set()

    async def _wait_graces(self) -> None:
        """Wait until the first grace period of a gone broker is over.

        A view is most expensive while ten thousand bundles have no owner, and during that time the
        servers and this broker are busy with their re-acquisition.
        """
        if left_s := self._grace_left_s(self._gone_s.values()):
            await asyncio.sleep(min(left_s))  # meanwhile brokers may have come or gone

    def _grace_left_s(self, gone_s: Iterable[float]) -> list[float]:
        """Remaining grace periods in seconds, without those that are over."""
        ends_s = self._dependencies.rules().reclaim_grace_s - self._dependencies.clock.now_s()
        return [left_s for one_s in gone_s if (left_s := one_s + ends_s) > _INSTANT_S]

    async def _wait_change(self, limit_s: float) -> bool:
        """Wait for a broker to come or go, up to the limit; returns whether one did."""
        try:
            async with asyncio.timeout(limit_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _place_all(self) -> None:
        """Place in rounds; the next waits for a grace period, or longer the fewer were placed."""
        pause_s = _SHORTEST_S
        while True:
            try:
                before = await self._orphans()
                grace_left_s = await self._place(before)
                after = await self._orphans() if before else []
            except (AuthorityLost, Fenced):
                raise
            except BrokerCtlError as error:
                log.info("cannot place orphans: %s; waiting for the next check", error)
                return
            if not after:
                return
            is_progress = len(after) < len(before)
            pause_s = _SHORTEST_S if is_progress else min(pause_s * 2, _LONGEST_S)
            if await self._wait_change(pause_s if grace_left_s is None else grace_left_s):
                await self._wait_graces()
                pause_s = _SHORTEST_S

    async def _orphans(self) -> list[BundleView]:
        """Orphans, the heaviest first: they have the most clients."""
        view = await self._snapshot_builder.build()
        found = list(orphans_of(view, self._memory, self._dependencies))
        self._progress.observe(len(found), self._dependencies.clock.now_s())
        return sorted(
            found, key=lambda bundle_view: (-bundle_view.load.short.throughput, bundle_view.bundle)
        )

    async def _place(self, orphans: list[BundleView]) -> float | None:
        """Place orphans without a grace period; returns seconds until the next period ends."""
        ripe, grace_left_s = self._by_grace(orphans)
        assigns: list[Assign] = []
        for bundle in ripe[: self._per_round()]:
            try:
                choice = await self._placements.place(bundle)
            except NoBroker as error:
                log.info("no broker can receive orphans: %s; retrying in the next round", error)
                break
            assert choice.broker_id is not None
            whose = self._memory.get(bundle).owner or "its broker"
            detail = f"{whose} is gone; {choice.broker_id} has {choice.detail}"
            assigns.append(Assign(bundle, choice.broker_id, choice.reason, detail))
        await self._executor.execute_all(assigns)
        return grace_left_s

    def _per_round(self) -> int:
        """Maximum placements of a round; fewer after a mass loss.

        Its clients all connect again, and what is left of the cluster has to carry them.
        """
        rules, pause = self._dependencies.rules().mass_loss, self._dependencies.directives.pause
        # The first rounds come before the pause.
        is_new = rules.is_mass_loss(frozenset(self._gone_s), frozenset(self._present))
        if not is_new and (pause is None or not pause.is_automatic):
            return _PER_ROUND
        return max(1, min(_PER_ROUND, round(rules.placements_per_s * _SHORTEST_S)))

    def _by_grace(self, orphans: list[BundleView]) -> tuple[list[Bundle], float | None]:
        ripe: list[Bundle] = []
        waiting_s: list[float] = []
        for bundle_view in orphans:
            remembered = self._memory.get(bundle_view.bundle)
            if remembered.free_since_s is None:
                continue  # acquired since the view
            # It is free since its owner went, not since that was noticed.
            gone_s = self._gone_s.get(remembered.owner or "", remembered.free_since_s)
            left_s = self._grace_left_s([min(gone_s, remembered.free_since_s)])
            if left_s:
                waiting_s += left_s
            else:
                ripe.append(bundle_view.bundle)
        return ripe, min(waiting_s, default=None)


def orphans_of(
    view: ClusterView, memory: BundleHistory, dependencies: BalancerDependencies
) -> Iterator[BundleView]:
    """Bundles with traffic and without an owner, which need no lookup to be placed.

    The children of a split have a share of the load of their parent, until a broker reports them.
    """
    for bundle_view in view.bundles.values():
        if (
            bundle_view.owner is None
            and not view.is_busy(bundle_view.bundle)
            and _had_traffic(bundle_view)
        ):
            # Bundles unloaded from a live broker are placed by lookups.
            owner = memory.get(bundle_view.bundle).owner
            if owner is None or not dependencies.can_receive(owner):
                yield bundle_view


def _had_traffic(bundle_view: BundleView) -> bool:
    average = bundle_view.load.short
    return average.msg_rate > 0 or average.throughput > 0
