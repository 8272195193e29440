"""The load balancer: runs while this broker leads, and answers requests to the leader."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker_ctl.balancer.admin.manual_actions import (
    find_special_bundle,
    manual_merge,
    manual_move,
    manual_split,
)
from broker_ctl.balancer.admin.operations import BalancerOperations
from broker_ctl.balancer.admin.views import explain, overview
from broker_ctl.balancer.context.dependencies import BalancerCounters, BalancerDependencies
from broker_ctl.balancer.monitoring.absence_monitor import AbsenceMonitor, StabilityGate
from broker_ctl.balancer.monitoring.bundle_data_store import BundleDataStore, read_bundle_data
from broker_ctl.balancer.planning.approvals import ProposedPlans
from broker_ctl.balancer.planning.cycle import Cycle
from broker_ctl.balancer.planning.orphans import LostBrokers, MassLossBrake, Orphans
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.balancer.statistics import size_advice, tally
from broker_ctl.coordination.election import Leadership
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.load import BundleLoad
from broker_ctl.core.model.names import PERSISTENT, Bundle, Namespace
from broker_ctl.core.planning.size import SizeAdvice
from broker_ctl.errors import AuthorityLost, Fenced, LeadershipSuspended, NoLeader, StoreError
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope, run_all

log = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _ActiveTerm:
    """The current term, and the task scope of requests to it."""

    term: LeaderTerm
    cycle: Cycle
    lost_brokers: LostBrokers
    requests: TaskScope
    proposed_plans: ProposedPlans


Found = Mapping[Bundle, BundleLoad]
# A task beside the cycle, given the averages stored by an earlier leader.
Chore = Callable[[LeaderTerm, StabilityGate, Found], Coroutine[Any, Any, None]]


def _keep_averages(term: LeaderTerm, _: StabilityGate, found: Found) -> Coroutine[Any, Any, None]:
    return BundleDataStore(term.dependencies, term.leadership, term.load_monitor, found).run()


def _place_orphans(
    term: LeaderTerm, stability_gate: StabilityGate, _: Found
) -> Coroutine[Any, Any, None]:
    return Orphans(term, stability_gate).run()


def _keep_decisions(term: LeaderTerm, _: StabilityGate, __: Found) -> Coroutine[Any, Any, None]:
    return term.decision_history.run()


# Tasks of every leader that may write to the store.
WRITING: Final[Mapping[str, Chore]] = {"decisions": _keep_decisions}
# Additional tasks of a leader of broker-ctl brokers; an attached leader has none of them.
CHORES: Final[Mapping[str, Chore]] = {
    "quotas": _keep_averages,
    "orphans": _place_orphans,
    **WRITING,
}


class LoadBalancer:
    """Placement of bundles and requests to the leader, while this broker is it.

    `lead` runs while this broker is elected; otherwise every request raises `NoLeader`.

    Attributes:
        directives, journal, absence_monitor: answer whether this broker leads or not.
    """

    def __init__(
        self, dependencies: BalancerDependencies, chores: Mapping[str, Chore] = CHORES
    ) -> None:
        self.directives, self.journal = dependencies.directives, dependencies.journal
        self._dependencies = dependencies
        self._chores = chores
        self._stability_gate = StabilityGate(dependencies.store, dependencies.clock)
        self.absence_monitor = AbsenceMonitor(dependencies)
        self._active: _ActiveTerm | None = None
        self._earlier_terms = BalancerCounters()

    def start(self) -> None:
        """Start watching this broker's own connection and the other brokers, as leader or not."""
        self._stability_gate.start()
        self.absence_monitor.start()

    def close(self) -> None:
        """Stop watching."""
        self.absence_monitor.close()
        self._stability_gate.close()

    @property
    def is_leading(self) -> bool:
        """Whether requests are answered."""
        return self._active is not None

    @property
    def term(self) -> LeaderTerm | None:
        """The current term; None if this broker does not lead."""
        return None if self._active is None else self._active.term

    @property
    def usage_averages(self) -> Mapping[str, float]:
        """Moving average of each broker's usage, 1.0 is full; empty without a term."""
        return {} if self._active is None else self._active.cycle.usage_averages

    @property
    def tally(self) -> BalancerCounters:
        """Counters of all terms of this process."""
        return (
            self._earlier_terms
            if self._active is None
            else self._earlier_terms + tally(self._active.term)
        )

    async def lead(self, leadership: Leadership) -> None:
        """Lead until cancelled, or until another leader is met."""
        try:
            await self._lead(LeaderTerm.of(self._dependencies, leadership))
        except* (Fenced, AuthorityLost) as group:
            log.info("leadership at epoch %d has ended: %s", leadership.epoch, group.exceptions[0])

    async def _lead(self, term: LeaderTerm) -> None:
        try:
            await term.start()
            found = await _read_earlier_averages(self._dependencies.store)
            term.load_monitor.seed(found)
            brake = MassLossBrake(term, self.absence_monitor)
            cycle = Cycle(term, self._stability_gate, brake)
            async with TaskScope(f"requests at epoch {term.leadership.epoch}") as requests:
                self._active = _ActiveTerm(
                    term, cycle, brake.lost_brokers, requests, ProposedPlans()
                )
                try:
                    chores = [
                        (name, chore(term, self._stability_gate, found))
                        for name, chore in self._chores.items()
                    ]
                    await run_all([("adopt moves", _adopt(term)), ("cycle", cycle.run()), *chores])
                finally:
                    self._active = None
                    self._earlier_terms += tally(term)
        finally:
            await term.close()

    # Requests.

    def _require_active(self) -> _ActiveTerm:
        if self._active is None:
            raise NoLeader(f"{self._dependencies.own_id} does not lead")
        return self._active

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> str:
        """See `Placement.place`."""
        term = self._require_active().term
        try:
            choice = await term.placements.place(bundle, domain)
        except (AuthorityLost, LeadershipSuspended) as error:
            raise NoLeader(str(error)) from error
        assert choice.broker_id is not None
        return choice.broker_id

    @property
    def operations(self) -> BalancerOperations:
        """Plans, drains and history.

        Raises:
            NoLeader: this broker does not lead.
        """
        active = self._require_active()
        return BalancerOperations(
            active.term, active.cycle, active.proposed_plans, self._run_in_term
        )

    def overview(self) -> Mapping[str, Any]:
        """Brokers, bundles, imbalance, moves and settings of the loop, as plain JSON values.

        Raises:
            NoLeader: this broker does not lead.
        """
        active = self._require_active()
        due = {"next_cycle_s": active.cycle.next_due_s()}
        return {**overview(active.term, active.lost_brokers.since_ms()), **due}

    def explain(self, subject: str) -> Mapping[str, Any]:
        """State and last decisions of a broker or a bundle.

        Raises:
            InvalidName: neither a live broker nor a bundle.
            NoLeader: this broker does not lead.
        """
        active = self._require_active()
        return explain(active.term, subject, active.cycle.slow_records)

    def advise_size(self, growth_ratio: float = 0.0) -> SizeAdvice | None:
        """How many brokers the load of the newest snapshot needs; None: nobody knows yet.

        Raises:
            NoLeader: this broker does not lead.
        """
        return size_advice(self._require_active().term, growth_ratio)

    async def move(
        self, bundle: Bundle, destination: str, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Transfer a bundle for an operator; returns when the destination serves it.

        The destination acquires a bundle without an owner. Neither budgets nor a pause apply. A dry
        run moves nothing; the answer names the source: ``{bundle, from, to}``.

        Raises:
            NoBroker: the destination is not alive, or is stopping.
            OwnershipError, PeerError, StoreError: why it was not moved.
            NoLeader: this broker does not lead (any more).
        """
        return await self._run_in_term(
            lambda term: manual_move(term, bundle, destination, who, is_dry_run=is_dry_run),
            f"move {bundle}",
        )

    async def special_bundle(self, namespace: Namespace, name: str) -> Bundle:
        """The bundle of a namespace that is ``LARGEST`` or ``HOT``.

        Raises:
            BundleGone: no bundle of the namespace was reported.
            NoLeader: this broker does not lead (any more).
        """
        return await self._run_in_term(
            lambda term: find_special_bundle(term, namespace, name), f"find {name}"
        )

    async def split(
        self,
        bundle: Bundle,
        algorithm: str,
        positions: tuple[int, ...],
        who: str = "",
        *,
        is_unloading: bool,
    ) -> Reply:
        """Split a bundle for an operator; then move the children to better places.

        A bundle without an owner is placed first.

        Raises:
            NoBroker, OwnershipError, PeerError, StoreError: why it was not split.
            NoLeader: this broker does not lead (any more).
        """
        return await self._run_in_term(
            lambda term: manual_split(
                term, bundle, algorithm, positions, who, is_unloading=is_unloading
            ),
            f"split {bundle}",
        )

    async def merge(
        self, left: Bundle, right: Bundle, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Merge two neighbours for an operator, after moving one if necessary.

        A dry run merges and moves nothing; the answer names the owner: ``{bundle, owner}``.

        Raises:
            InvalidName: ``right`` does not begin where ``left`` ends.
            NoBroker, OwnershipError, PeerError, StoreError: why they were not merged.
            NoLeader: this broker does not lead (any more).
        """
        return await self._run_in_term(
            lambda term: manual_merge(term, left, right, who, is_dry_run=is_dry_run),
            f"merge {left} and {right.range}",
        )

    async def _run_in_term(
        self, work: Callable[[LeaderTerm], Coroutine[Any, Any, _T]], name: str
    ) -> _T:
        """Run work that ends with the term, but not when the caller is cancelled."""
        active = self._require_active()
        task = active.requests.start(work(active.term), name, is_joined=True)
        try:
            return await asyncio.shield(task)
        except (Fenced, AuthorityLost) as error:
            raise NoLeader(f"{name}: {error}") from error
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise NoLeader(f"{name}: the leadership ended meanwhile") from None
            raise
        finally:
            # Its error is in the task, and has this function: only a search would free them.
            del task, active


async def _read_earlier_averages(store: MetadataStore) -> Found:
    try:
        return await read_bundle_data(store)
    except StoreError as error:
        log.warning("cannot read the averages of earlier leaders: %s; starting without", error)
        return {}


async def _adopt(term: LeaderTerm) -> None:
    try:
        await term.executor.adopt()
    except StoreError as error:
        log.info("cannot take over moves of earlier leaders: %s; the first cycle retries", error)
