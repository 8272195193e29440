"""Choosing who receives a bundle that nobody owns, and keeping the promise.

Between a choice and the report of the chosen broker lie seconds, in which a burst of lookups asks
again and again. Each choice is reserved: the same bundle gets the same answer, and the next bundle
sees the broker as if it had the first one already. Pulsar's leader drops such promises at the next
report of any broker, so that the broker that looks idle is flooded (docs: pulsar-report-rules).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from broker_ctl.balancer.context.counters import PlacementLog, PlacementResult
from broker_ctl.balancer.context.dependencies import BalancerDependencies
from broker_ctl.balancer.monitoring.load_monitor import LoadMonitor
from broker_ctl.balancer.monitoring.snapshot_builder import SnapshotBuilder
from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load_vector import LoadVector
from broker_ctl.core.model.names import PERSISTENT
from broker_ctl.core.strategies.placement.pipeline import place
from broker_ctl.core.strategies.placement.policy import Choice
from broker_ctl.errors import NoBroker

_FRESH_S: Final = 1.0
# In a large cluster a view takes its time: so much of it may go into views for lookups.
_VIEWING_RATIO: Final = 0.05


@dataclass(frozen=True, slots=True)
class Reservation:
    """A promise: ``broker_id`` is to take the bundle, and is kept free for it ``until_s``.

    Attributes:
        session_id: session of the broker that was chosen; the next life of it has promised nothing.
        report_ms: the report of it that was known then; whether it has the bundle says nothing.
    """

    broker_id: str
    choice: Choice
    until_s: float
    session_id: int
    report_ms: int | None


class Placements:
    """The placements of one leading.

    Attributes:
        log: what came of the questions, and how long they took.
    """

    def __init__(
        self,
        parts: BalancerDependencies,
        leadership: Leadership,
        board: LoadMonitor,
        survey: SnapshotBuilder,
    ) -> None:
        self.log = PlacementLog()
        self._parts = parts
        self._leadership = leadership
        self._board = board
        self._survey = survey
        self._reserved: dict[Bundle, Reservation] = {}
        self._full: ClusterView | None = None
        self._fresh_s = _FRESH_S
        # Brokers with all that was promised to them, and no bundles: cheap to change per choice.
        self._promised: ClusterView | None = None
        self._turn = asyncio.Lock()
        self._constraints = parts.constraints()

    @property
    def reserved(self) -> dict[Bundle, Reservation]:
        """Promises that stand."""
        return dict(self._reserved)

    async def place(self, bundle: Bundle, domain: str = PERSISTENT) -> Choice:
        """Who receives a bundle; asked again, the answer is the same until it can no longer be.

        ``domain`` is that of the topic which is asked for.

        Raises:
            NoBroker: nobody may receive it.
            LeadingSuspended, AuthorityLost: this broker may not decide now, or leads no more.
        """
        began_s, held = self._parts.clock.now_s(), self._reserved.get(bundle)
        try:
            choice = await self._place(bundle, domain)
        except NoBroker:
            self.log.note(PlacementResult.EMPTY, self._parts.clock.now_s() - began_s)
            raise
        is_kept = held is not None and choice is held.choice
        result = PlacementResult.SKIP if is_kept else PlacementResult.SUCCESS
        self.log.note(result, self._parts.clock.now_s() - began_s)
        return choice

    async def _place(self, bundle: Bundle, domain: str) -> Choice:
        self._leadership.check()
        async with self._turn:
            self._heed()
            now_s = self._parts.clock.now_s()
            held = self._reserved.get(bundle)
            if held is not None and self._stands(bundle, held, now_s):
                return held.choice
            self._reserved.pop(bundle, None)
            view = await self._fresh(now_s)
            # While it was taken the connection may have gone.
            self._leadership.check()
            view = self._living(view)
            candidates = self._candidates(view, frozenset())
            rules = self._parts.rules()
            asked = replace(rules.placement_rules, domain=domain)
            choice = place(view, bundle, candidates, rules.placement, asked)
            return self._reserve(bundle, choice, now_s)

    async def choose(self, bundle: Bundle, in_vain: frozenset[str]) -> str:
        """Who else receives a bundle, after those ``in_vain`` did not.

        Raises:
            NoBroker: nobody is left.
        """
        await self._leadership.wait_deciding()
        async with self._turn:
            self._heed()
            view = await self._fresh(self._parts.clock.now_s())
            # The move that is under way names the very broker that failed.
            moves = {other: move for other, move in view.moves.items() if other != bundle}
            view = self._living(replace(view, moves=moves))
            candidates = self._candidates(view, in_vain)
            rules = self._parts.rules()
            choice = place(view, bundle, candidates, rules.placement, rules.placement_rules)
            if choice.broker_id is None:
                raise NoBroker(f"{bundle}: {choice.detail}")
            return choice.broker_id

    def _heed(self) -> None:
        """What an operator has set since the last choice holds at once, and voids all promises."""
        constraints = self._parts.constraints()
        if constraints is self._constraints:
            return
        self._constraints = constraints
        self._reserved.clear()
        self._promised = None
        if self._full is not None:
            self._full = replace(self._full, constraints=constraints)

    def _living(self, view: ClusterView) -> ClusterView:
        """Without brokers whose session ended since: a restarted one is as new to the next view."""
        registry = self._parts.registry
        living = {
            broker_id: broker
            for broker_id, broker in view.brokers.items()
            if (peer := registry.peer(broker_id)) and peer.session_id == broker.session_id
        }
        return view if len(living) == len(view.brokers) else replace(view, brokers=living)

    def _candidates(self, view: ClusterView, excluded: frozenset[str]) -> Sequence[str]:
        """The view is some time old, the registry is not."""
        able = view.receivers(self._parts.rules().placement_rules.report_ttl_s)
        return [b for b in able if b not in excluded and self._parts.can_receive(b)]

    def _reserve(self, bundle: Bundle, choice: Choice, now_s: float) -> Choice:
        if choice.broker_id is None:
            raise NoBroker(f"{bundle}: {choice.detail}")
        until_s = now_s + self._parts.rules().reservation_s
        peer = self._parts.registry.peer(choice.broker_id)
        self._reserved[bundle] = Reservation(
            choice.broker_id,
            choice,
            until_s,
            0 if peer is None else peer.session_id,
            self._report_ms(choice.broker_id),
        )
        if self._promised is not None:
            self._promised = self._with_promise(self._promised, bundle, choice.broker_id)
        return choice

    # What stands.

    def _stands(self, bundle: Bundle, held: Reservation, now_s: float) -> bool:
        """Until its broker reports the bundle, goes away, or lets the time pass.

        A broker that had the bundle before may have it in its last report still.
        """
        report = self._board.reports.get(held.broker_id)
        is_reported = (
            report is not None
            and bundle in report.lines
            and self._report_ms(held.broker_id) != held.report_ms
        )
        peer = self._parts.registry.peer(held.broker_id)
        is_same_life = peer is not None and peer.session_id == held.session_id
        can_receive = is_same_life and self._parts.can_receive(held.broker_id)
        return now_s < held.until_s and not is_reported and can_receive

    def _report_ms(self, broker_id: str) -> int | None:
        report = self._board.reports.get(broker_id)
        return None if report is None else report.data.load.updated_ms

    async def _fresh(self, now_s: float) -> ClusterView:
        """The brokers with their promises, about a second old at most."""
        if self._full is None or now_s - self._full.taken_at_s >= self._fresh_s:
            self._full = await self._survey.take(draw_seed=self._leadership.epoch)
            took_s = self._parts.clock.now_s() - now_s
            self._fresh_s = max(_FRESH_S, took_s / _VIEWING_RATIO)
            self._promised = None
        if self._promised is None:
            self._reserved = {
                bundle: held
                for bundle, held in self._reserved.items()
                if self._stands(bundle, held, now_s)
            }
            view = replace(self._full, bundles={})
            for bundle, held in self._reserved.items():
                view = self._with_promise(view, bundle, held.broker_id)
            self._promised = view
        return self._promised

    def _with_promise(self, view: ClusterView, bundle: Bundle, broker_id: str) -> ClusterView:
        """The view with one more bundle at a broker, unless it is counted there already."""
        broker = view.brokers.get(broker_id)
        if broker is None or bundle in broker.owned:
            return view
        known = self._full.bundles.get(bundle) if self._full is not None else None
        load = self._board.load_of(bundle)
        footprint = (
            known.footprint
            if known is not None
            else LoadVector(0.0, load.short.throughput, load.long.msg_rate, load.topics)
        )
        busier = broker.holding(come=[bundle], expected=broker.expected + footprint)
        return replace(view, brokers={**view.brokers, broker_id: busier})
