"""A rollout as it stands, and the gates that each restarted broker has to pass."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.cluster.view import BundleView
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.rollout.broker_machine import DRAINED
from broker_ctl.core.rollout.broker_machine import BrokerRolloutEvent as BrokerEvent
from broker_ctl.core.rollout.broker_machine import BrokerRolloutState as BrokerState
from broker_ctl.core.rollout.broker_machine import step as step_broker
from broker_ctl.core.rollout.forecast import Batch
from broker_ctl.core.rollout.machine import ENDED, HOLDING, RolloutEvent, RolloutState, step

# A rollout as it stands: its terms, and how far each broker has come.


MOST_NOTE: Final = 512


@dataclass(frozen=True, slots=True)
class RolloutTerms:
    """What an operator asks of a rollout beside its brokers.

    Attributes:
        version: which the restarted brokers have to run; empty: any.
        gate_timeout_s: seconds until a gate that stays closed stops the rollout.
        accepts_overload: whether it begins although the rest would carry too much.
    """

    version: str = ""
    gate_timeout_s: int = 300
    accepts_overload: bool = False


@dataclass(frozen=True, slots=True)
class BrokerProgress:
    """One broker.

    Attributes:
        state: how far it has come.
        changed_ms: when it came to this state, in ms since 1970.
        run_before: run of its process before the restart; empty: not known yet, or not alive.
        is_healthy: whether the driver has found it ready at its own address.
        detail: what it waits for, or why it failed.
        heard_ms: when something was last said of it, in ms since 1970.
    """

    broker_id: str
    state: BrokerState = BrokerState.WAITING
    changed_ms: int = 0
    run_before: str = ""
    is_healthy: bool = False
    detail: str = ""
    heard_ms: int = 0

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "broker": self.broker_id,
            "state": self.state.value,
            "changed_ms": self.changed_ms,
            "healthy": self.is_healthy,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Rollout:
    """A rollout.

    Attributes:
        rollout_id: unique among the rollouts of the cluster.
        order: who began it, when and why.
        batches: which brokers restart together, in order.
        brokers: the same brokers with their progress.
        moves: number of bundles that were moved.
        least_moves: no rollout of these brokers needs fewer, by its forecast.
        msg_rate: msg/s of the cluster when the batch in progress began.
        live_ids: brokers that were registered for replicas then, by their numbers.
        note: why it stopped, or who paused it.
        changed_ms: when it came to its state, in ms since 1970.
    """

    rollout_id: str
    order: AuditInfo
    terms: RolloutTerms
    batches: tuple[Batch, ...]
    brokers: tuple[BrokerProgress, ...]
    state: RolloutState = RolloutState.RUNNING
    moves: int = 0
    least_moves: int = 0
    msg_rate: float = 0.0
    note: str = ""
    changed_ms: int = 0
    live_ids: tuple[int, ...] = ()

    @classmethod
    def begin(
        cls,
        rollout_id: str,
        order: AuditInfo,
        terms: RolloutTerms,
        batches: tuple[Batch, ...],
        *,
        least_moves: int = 0,
    ) -> Self:
        """A rollout of which nothing has been done."""
        brokers = tuple(BrokerProgress(each) for batch in batches for each in batch)
        return cls(
            rollout_id,
            order,
            terms,
            batches,
            brokers,
            least_moves=least_moves,
            changed_ms=order.at_ms,
        )

    @property
    def who(self) -> str:
        """The name under which it pauses and drains."""
        return f"rollout {self.rollout_id}"

    @property
    def is_holding(self) -> bool:
        """Whether balancing is paused for it."""
        return self.state in HOLDING

    @property
    def is_over(self) -> bool:
        """Whether another may begin."""
        return self.state in ENDED

    @property
    def current(self) -> tuple[BrokerProgress, ...]:
        """The brokers of the batch in progress, or of the next one; empty: all have restarted."""
        for batch in self.batches:
            found = tuple(each for each in self.brokers if each.broker_id in batch)
            if any(each.state is not BrokerState.DONE for each in found):
                return found
        return ()

    @property
    def drained(self) -> frozenset[str]:
        """The brokers that receive nothing now."""
        if not self.is_holding:
            return frozenset()
        return frozenset(each.broker_id for each in self.brokers if each.state in DRAINED)

    @property
    def outstanding(self) -> frozenset[str]:
        """The brokers that have not restarted."""
        return frozenset(
            each.broker_id for each in self.brokers if each.state is not BrokerState.DONE
        )

    def progress_of(self, broker_id: str) -> BrokerProgress | None:
        """The progress of a broker; None: it is not part of this rollout."""
        return next((each for each in self.brokers if each.broker_id == broker_id), None)

    def on(self, event: RolloutEvent, now_ms: int, note: str = "") -> Self:
        """The rollout after an event.

        Raises:
            InvalidTransition: it does not fit the state.
        """
        state = step(self.state, event, self.rollout_id)
        return replace(self, state=state, note=note[:MOST_NOTE], changed_ms=now_ms)

    def on_broker(
        self,
        broker_id: str,
        event: BrokerEvent,
        now_ms: int,
        *,
        detail: str = "",
        run_before: str | None = None,
    ) -> Self:
        """The rollout after an event of one of its brokers.

        Raises:
            InvalidTransition: it does not fit the state of the broker.
        """
        brokers = tuple(
            each if each.broker_id != broker_id else _after(each, event, now_ms, detail, run_before)
            for each in self.brokers
        )
        return replace(self, brokers=brokers)

    def found_healthy(self, broker_id: str) -> Self:
        """The rollout after the driver found a restarted broker ready at its address."""
        brokers = tuple(
            replace(each, is_healthy=True)
            if each.broker_id == broker_id and each.state is BrokerState.CHECKING
            else each
            for each in self.brokers
        )
        return replace(self, brokers=brokers)

    def waiting_for(self, details: dict[str, str]) -> Self:
        """The rollout with what its brokers wait for; the date of their states stays."""
        brokers = tuple(
            replace(each, detail=details.get(each.broker_id, each.detail)[:MOST_NOTE])
            for each in self.brokers
        )
        return replace(self, brokers=brokers)

    def eta_s(self, now_ms: int) -> float | None:
        """Seconds until all brokers have restarted, at the pace so far; None: none has."""
        done = len(self.brokers) - len(self.outstanding)
        if not done or self.is_over:
            return 0.0 if self.is_over else None
        return max(0, now_ms - self.order.at_ms) / 1000 / done * len(self.outstanding)

    def to_row(self, now_ms: int) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "id": self.rollout_id,
            "state": self.state.value,
            **self.order.to_row(),
            "note": self.note,
            "version": self.terms.version or None,
            "gate_timeout_s": self.terms.gate_timeout_s,
            "batches": [list(batch) for batch in self.batches],
            "brokers": [each.to_row() for each in self.brokers],
            "restarted": len(self.brokers) - len(self.outstanding),
            "moves": self.moves,
            "least_moves": self.least_moves,
            "eta_s": self.eta_s(now_ms),
            "changed_ms": self.changed_ms,
        }


def _after(
    known: BrokerProgress, event: BrokerEvent, now_ms: int, detail: str, run_before: str | None
) -> BrokerProgress:
    state = step_broker(known.state, event, known.broker_id)
    run = known.run_before if run_before is None else run_before
    changed_ms = known.changed_ms if state is known.state else now_ms
    return BrokerProgress(
        known.broker_id, state, changed_ms, run, detail=detail[:MOST_NOTE], heard_ms=now_ms
    )


# What has to be true of a restarted broker before the next one may stop.


# Clients that reconnect bring most of the traffic back at once; the rest may take its time.
_TRAFFIC_RATIO: Final = 0.5
_MOST_NAMES: Final = 4
# A broker reports a change of this part of its traffic at once, and a smaller one much later: an
# average of less than this remains of bundles that have no clients.
_REPORTED_RATIO: Final = 0.1
_LEAST_MSG_RATE: Final = 1.0
_LEAST_BYTES_PER_S: Final = 1024.0


@dataclass(frozen=True, slots=True)
class BrokerReadings:
    """What the leader sees of a restarted broker and of the cluster.

    Attributes:
        run: of the broker's registration; None: it is not registered.
        run_before: of its registration before the restart.
        is_healthy: whether the driver found it ready at its own address, from outside.
        version: by its report; empty: unknown.
        has_reported: whether a report of the new run has arrived at the leader.
        stale: brokers of which no report is known since bundles with traffic were moved to them.
        lagging: partitions with a replica that is not in the ISR, though its broker was there when
            the batch began.
        msg_rate: msg/s of the cluster now.
        msg_rate_before: msg/s of the cluster when the batch began.
    """

    run: str | None
    run_before: str
    is_healthy: bool
    version: str
    has_reported: bool
    stale: tuple[str, ...] = ()
    lagging: tuple[str, ...] = ()
    msg_rate: float = 0.0
    msg_rate_before: float = 0.0


def awaits_report(unlisted: Iterable[BundleView], received_s: float, reported: BundleStats) -> bool:
    """Whether a report from before some moves hides traffic of its broker.

    A Java broker lists the bundles whose topics are open there, so one whose topics have no clients
    is in none of its reports, however new they are.

    Args:
        unlisted: the bundles that the broker owns and its newest report does not list.
        received_s: when that report came, on the clock of the view.
        reported: the traffic that it has.
    """
    msg_rate = throughput = 0.0
    for bundle in unlisted:
        moved_s = bundle.last_released_s
        if moved_s is not None and moved_s >= received_s:
            msg_rate += bundle.load.short.msg_rate
            throughput += bundle.load.short.throughput
    return msg_rate > max(_LEAST_MSG_RATE, _REPORTED_RATIO * reported.msg_rate) or throughput > max(
        _LEAST_BYTES_PER_S, _REPORTED_RATIO * reported.throughput
    )


def closed_gates(readings: BrokerReadings, version: str) -> tuple[str, ...]:
    """What a restarted broker is waited for, in words; empty: it may receive bundles.

    Args:
        readings: what is seen.
        version: which the broker has to run; empty: any.
    """
    if readings.run is None:
        return ("it is not registered",)
    if readings.run == readings.run_before:
        return ("the registered process is the one from before the restart",)
    closed = []
    if not readings.is_healthy:
        closed.append("the driver has not found it ready at its own address")
    if not readings.has_reported:
        closed.append("the leader has no load report of the new process")
    elif version and readings.version != version:
        closed.append(f"it runs version {readings.version or 'unknown'}, wanted is {version}")
    if readings.stale:
        closed.append(f"no report since the moves of {', '.join(readings.stale)}")
    if readings.lagging:
        more = len(readings.lagging) - _MOST_NAMES
        names = ", ".join(readings.lagging[:_MOST_NAMES])
        closed.append(f"not in sync: {names}" + (f" and {more} more" if more > 0 else ""))
    if readings.msg_rate < readings.msg_rate_before * _TRAFFIC_RATIO:
        closed.append(
            f"clients have not returned: {readings.msg_rate:.0f} msg/s, before "
            f"{readings.msg_rate_before:.0f}"
        )
    return tuple(closed)
