"""Orphans, and the loss of many brokers at once: what is placed again, and when balancing waits."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.dependencies import BalancerDependencies, LeaderRules
from broker_ctl.balancer.monitoring.absence_monitor import AbsenceMonitor, StabilityGate
from broker_ctl.balancer.planning.directives import write_directives
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.decisions import Assign
from broker_ctl.core.cluster.directives import AuditInfo, Pause
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.errors import (
    AuthorityLost,
    BrokerCtlError,
    CorruptRecord,
    Fenced,
    NewerVersion,
    NoBroker,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, Delete, SetData
from broker_ctl.store.records.broker_ctl import MOST_LOST, LostRecord
from broker_ctl.store.records.directives import PauseRecord

log = logging.getLogger(__name__)

# Brokers that were lost, in the store: a leader knows of losses that only an earlier one has seen.
#
# A broker is lost if its registration went without a stop or a drain. It is forgotten when it is
# back, when an operator drains it, and after a day.


_KEPT_MS: Final = 24 * 3_600_000


class LostBrokers:
    """Those of one term, which alone writes the node."""

    def __init__(self, term: LeaderTerm, absence_monitor: AbsenceMonitor) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._absence_monitor = absence_monitor
        self._stored: Mapping[str, int] = {}
        # Of the node: None before it was read, -1 where it does not exist.
        self._version: int | None = None

    def since_ms(self) -> Mapping[str, int]:
        """When each was missed first, in ms since 1970."""
        now_ms = self._dependencies.clock.wall_ms()
        back = (
            self._dependencies.registry.peers.keys() | self._dependencies.directives.drains.keys()
        )
        seen = {**dict.fromkeys(self._absence_monitor.lost(), now_ms), **self._stored}
        lost = {
            broker: at_ms
            for broker, at_ms in seen.items()
            if broker not in back and now_ms - at_ms < _KEPT_MS
        }
        newest = sorted(lost, key=lambda each: (-lost[each], each))[:MOST_LOST]
        return {broker: lost[broker] for broker in sorted(newest)}

    async def advance(self, *, is_dry_run: bool) -> None:
        """Read what earlier leaders have seen, and write what has changed.

        Raises:
            Fenced, AuthorityLost: this broker does not lead any more.
            StoreError: the node could not be read, or not be written.
        """
        if self._version is None:
            await self._read()
        wanted = self.since_ms()
        if wanted == self._stored or is_dry_run:
            return
        await self._term.leadership.wait_deciding()
        data, version = LostRecord(wanted).encode(), self._version
        # Whatever comes of it, what stands then is read again, and judged by the next cycle.
        self._version = None
        change = (
            Create(paths.LOST, data) if version == -1 else SetData(paths.LOST, data, version or 0)
        )
        await write_directives(self._term, change)
        for broker in wanted.keys() - self._stored.keys():
            log.warning("%s is lost: it left without a stop or a drain", broker)

    async def _read(self) -> None:
        node = await self._dependencies.store.get(paths.LOST)
        stored: Mapping[str, int] = {}
        if node is not None:
            try:
                stored = LostRecord.decode(node.path, node.data).since_ms
            except CorruptRecord as error:
                log.warning("skipped the list of lost brokers: %s", error)
            except NewerVersion as error:
                log.warning("the list of lost brokers is left alone: %s", error)
                raise
        self._stored, self._version = stored, -1 if node is None else node.stat.version


# Pauses balancing after a mass loss, until the brokers are back or an operator resumes it.
#
# It is the operators' pause, given by the leader: it survives the leader, every broker shows it
# with its reason, and `broker-ctl resume` ends it. Placement of orphans goes on, at a bounded
# rate.


_SHOWN = 5
_WHO = "broker-ctl"


class MassLossBrake:
    """The brake of one term.

    Attributes:
        lost_brokers: all that are known, for longer than they count here.
    """

    def __init__(self, term: LeaderTerm, absence_monitor: AbsenceMonitor) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._absence_monitor = absence_monitor
        self.lost_brokers = LostBrokers(term, absence_monitor)
        self._reporters: set[str] = set()

    async def advance(self, rules: LeaderRules) -> None:
        """Pause or resume, if it is time for it.

        Raises:
            Fenced, AuthorityLost: this broker does not lead any more.
            StoreError: the pause could not be read, or not be written.
        """
        await self.lost_brokers.advance(is_dry_run=rules.is_dry_run)
        present = frozenset(self._dependencies.registry.peers)
        silent = self._silent(present)
        lost, present = self._absence_monitor.lost(silent), present - silent
        is_mass_loss = rules.mass_loss.is_mass_loss(lost, present)
        pause = self._dependencies.directives.pause
        if pause is None and is_mass_loss:
            await self._engage(lost, present)
        elif pause is not None and pause.is_automatic and not is_mass_loss:
            await self._release()

    def _silent(self, present: frozenset[str]) -> frozenset[str]:
        """Live brokers that have reported in this term, and whose report is gone."""
        reports = self._term.load_monitor.reports.keys()
        self._reporters = (self._reporters | reports) & present
        return frozenset(self._reporters - reports)

    async def _engage(self, lost: frozenset[str], present: frozenset[str]) -> None:
        await self._term.leadership.wait_deciding()
        names = ", ".join(sorted(lost)[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
        why = (
            f"{len(lost)} of {len(lost | present)} brokers were lost ({names}): balancing goes on "
            "when they are back, or after broker-ctl resume"
        )
        order = AuditInfo.of(self._dependencies.clock.wall_ms(), _WHO, why)
        pause = Pause(order, is_automatic=True, lost=tuple(sorted(lost)))
        if await write_directives(self._term, Create(paths.PAUSE, PauseRecord(pause).encode())):
            log.warning("the balancing is paused: %s", why)

    async def _release(self) -> None:
        await self._term.leadership.wait_deciding()
        node = await self._dependencies.store.get(paths.PAUSE)
        if node is None:
            return
        try:
            is_automatic = PauseRecord.decode(node.path, node.data).pause.is_automatic
        except (CorruptRecord, NewerVersion):
            return
        # By its version: an operator may make the pause their own meanwhile.
        if is_automatic and await write_directives(
            self._term, Delete(paths.PAUSE, node.stat.version)
        ):
            log.info("the lost brokers are back: the balancing goes on")


# Orphans: bundles of brokers that are gone, placed again without waiting for a lookup.
#
# Only bundles that had traffic are placed: no client waits for the others. A broker whose session
# expired may return within the grace period, and until then its bundles are reserved for it (I7).


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
