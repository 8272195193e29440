"""The controller: what this broker does while it leads, and what others may ask of it then."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from broker_ctl.balancer.admin.manual_actions import (
    merge_by_order,
    move_by_order,
    special_by_order,
    split_by_order,
)
from broker_ctl.balancer.admin.operations import LeaderOperations
from broker_ctl.balancer.admin.views import explain, overview
from broker_ctl.balancer.context.counters import BalancerCounters
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.monitoring.bundle_data_store import BundleDataStore, read_bundle_data
from broker_ctl.balancer.monitoring.stability_gate import StabilityGate
from broker_ctl.balancer.planning.cycle import Cycle
from broker_ctl.balancer.planning.orphans import Orphans
from broker_ctl.balancer.planning.proposed_plans import ProposedPlans
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.balancer.statistics import tally
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.load import BundleLoad
from broker_ctl.core.model.names import PERSISTENT, Namespace
from broker_ctl.errors import AuthorityLost, Fenced, LeadingSuspended, NoLeader, StoreError
from broker_ctl.store.interface import MetadataStore
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Admin:
    """A leading that is under way, and the scope of what was asked of it."""

    leading: LeaderTerm
    cycle: Cycle
    asked: TaskScope
    shown: ProposedPlans


Found = Mapping[Bundle, BundleLoad]
# What goes on beside the cycle, given what an earlier leader found.
Chore = Callable[[LeaderTerm, StabilityGate, Found], Coroutine[Any, Any, None]]


def _keep_averages(
    leading: LeaderTerm, _: StabilityGate, found: Found
) -> Coroutine[Any, Any, None]:
    return BundleDataStore(leading.parts, leading.leadership, leading.board, found).run()


def _place_orphans(
    leading: LeaderTerm, steady: StabilityGate, _: Found
) -> Coroutine[Any, Any, None]:
    return Orphans(leading, steady).run()


def _keep_decisions(leading: LeaderTerm, _: StabilityGate, __: Found) -> Coroutine[Any, Any, None]:
    return leading.kept.run()


# Of whoever may write.
WRITING: Final[Mapping[str, Chore]] = {"decisions": _keep_decisions}
# Of whoever leads brokers that obey; nobody else keeps the averages, or places.
CHORES: Final[Mapping[str, Chore]] = {
    "quotas": _keep_averages,
    "orphans": _place_orphans,
    **WRITING,
}


class LoadBalancer:
    """`Placement` and `BalancerAdmin` of this broker.

    `lead` is the work of the election for its seat; outside of it every question is answered with
    `NoLeader`.
    """

    def __init__(self, parts: BalancerDependencies, chores: Mapping[str, Chore] = CHORES) -> None:
        self._parts = parts
        self._chores = chores
        self._steadiness = StabilityGate(parts.store, parts.clock)
        self._desk: _Admin | None = None
        self._past = BalancerCounters()

    def start(self) -> None:
        """Begin to notice trouble of this broker's own, leading or not."""
        self._steadiness.start()

    def close(self) -> None:
        """Stop noticing."""
        self._steadiness.close()

    @property
    def is_leading(self) -> bool:
        """Whether questions are answered."""
        return self._desk is not None

    @property
    def leading(self) -> LeaderTerm | None:
        """The one that is under way."""
        return None if self._desk is None else self._desk.leading

    @property
    def usage_averages(self) -> Mapping[str, float]:
        """Moving average of each broker's usage, 1.0 is full; nothing while this one leads not."""
        return {} if self._desk is None else self._desk.cycle.usage_averages

    @property
    def tally(self) -> BalancerCounters:
        """What was counted in all leadings of this process."""
        return self._past if self._desk is None else self._past + tally(self._desk.leading)

    async def lead(self, leadership: Leadership) -> None:
        """Lead until cancelled, or until another leader is met."""
        leading = LeaderTerm.of(self._parts, leadership)
        try:
            await self._lead(leading)
        except* (Fenced, AuthorityLost) as group:
            log.info("epoch %d has ended: %s", leadership.epoch, group.exceptions[0])

    async def _lead(self, leading: LeaderTerm) -> None:
        try:
            await leading.board.start()
            found = await _found(self._parts.store)
            leading.board.seed(found)
            cycle = Cycle(leading, self._steadiness)
            async with TaskScope(f"desk of epoch {leading.leadership.epoch}") as asked:
                self._desk = _Admin(leading, cycle, asked, ProposedPlans())
                try:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._adopt(leading), name="adopt moves")
                        tasks.create_task(cycle.run(), name="cycle")
                        for name, chore in self._chores.items():
                            tasks.create_task(chore(leading, self._steadiness, found), name=name)
                finally:
                    self._desk = None
                    self._past += tally(leading)
        finally:
            await leading.board.close()

    @staticmethod
    async def _adopt(leading: LeaderTerm) -> None:
        try:
            await leading.hands.adopt()
        except StoreError as error:
            log.info("moves are taken over by the first cycle: %s", error)

    # What may be asked.

    def _open_desk(self) -> _Admin:
        if self._desk is None:
            raise NoLeader(f"{self._parts.own_id} does not lead")
        return self._desk

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> str:
        """See `Placement.place`."""
        leading = self._open_desk().leading
        try:
            choice = await leading.placements.place(bundle, domain)
        except (AuthorityLost, LeadingSuspended) as error:
            raise NoLeader(str(error)) from error
        assert choice.broker_id is not None
        return choice.broker_id

    @property
    def operations(self) -> LeaderOperations:
        """See `BalancerAdmin.operations`.

        Raises:
            NoLeader: this broker does not lead.
        """
        desk = self._open_desk()
        return LeaderOperations(
            desk.leading, desk.cycle, desk.cycle.standing, desk.shown, self._by_order
        )

    def overview(self) -> Mapping[str, Any]:
        """See `BalancerAdmin.overview`.

        Raises:
            NoLeader: this broker does not lead.
        """
        desk = self._open_desk()
        is_paused = desk.leading.parts.directives.pause is not None
        return overview(desk.leading, is_paused=is_paused)

    def explain(self, subject: str) -> Mapping[str, Any]:
        """See `BalancerAdmin.explain`.

        Raises:
            InvalidName: neither a live broker nor a bundle.
            NoLeader: this broker does not lead.
        """
        return explain(self._open_desk().leading, subject)

    async def move(
        self, bundle: Bundle, destination: str, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """See `BalancerAdmin.move`; a bundle that nobody owns is taken by the destination.

        Budgets do not bind an operator, and neither does a pause.

        Raises:
            NoBroker: the destination is not alive, or on its way down.
            OwnershipError, PeerError, StoreError: why it was not moved.
            NoLeader: this broker does not lead (any more).
        """
        return await self._by_order(
            lambda leading: move_by_order(leading, bundle, destination, who, is_dry_run=is_dry_run),
            f"move {bundle}",
        )

    async def special_bundle(self, namespace: Namespace, name: str) -> Bundle:
        """See `BalancerAdmin.special_bundle`.

        Raises:
            BundleGone: nothing was reported of any bundle of the namespace.
            NoLeader: this broker does not lead (any more).
        """
        return await self._by_order(
            lambda leading: special_by_order(leading, namespace, name), f"find {name}"
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
        """See `BalancerAdmin.split`; a bundle that nobody owns is placed first.

        Raises:
            NoBroker, OwnershipError, PeerError, StoreError: why it was not split.
            NoLeader: this broker does not lead (any more).
        """
        return await self._by_order(
            lambda leading: split_by_order(
                leading, bundle, algorithm, positions, who, is_unloading=is_unloading
            ),
            f"split {bundle}",
        )

    async def merge(
        self, left: Bundle, right: Bundle, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """See `BalancerAdmin.merge`.

        Raises:
            InvalidName: ``right`` does not begin where ``left`` ends.
            NoBroker, OwnershipError, PeerError, StoreError: why they were not merged.
            NoLeader: this broker does not lead (any more).
        """
        return await self._by_order(
            lambda leading: merge_by_order(leading, left, right, who, is_dry_run=is_dry_run),
            f"merge {left} and {right.range}",
        )

    async def _by_order(
        self, work: Callable[[LeaderTerm], Coroutine[Any, Any, _T]], name: str
    ) -> _T:
        """In the scope of the leading: it must not outlive it, nor end with whoever asked."""
        desk = self._open_desk()
        task = desk.asked.start(work(desk.leading), name, is_joined=True)
        try:
            return await asyncio.shield(task)
        except (Fenced, AuthorityLost) as error:
            raise NoLeader(f"{name}: {error}") from error
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise NoLeader(f"{name}: leading ended meanwhile") from None
            raise


async def _found(store: MetadataStore) -> Found:
    try:
        return await read_bundle_data(store)
    except StoreError as error:
        log.warning("leading without the averages of earlier leaders: %s", error)
        return {}
