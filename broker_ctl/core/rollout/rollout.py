"""A rollout as it stands: its terms, and how far each broker has come."""

from dataclasses import dataclass, replace
from typing import Any, Final, Self

from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.rollout.broker_machine import DRAINED
from broker_ctl.core.rollout.broker_machine import Event as BrokerEvent
from broker_ctl.core.rollout.broker_machine import State as BrokerState
from broker_ctl.core.rollout.broker_machine import step as step_broker
from broker_ctl.core.rollout.machine import ENDED, HOLDING, Event, State, step
from broker_ctl.core.rollout.order import Batch

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
    state: State = State.RUNNING
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

    def on(self, event: Event, now_ms: int, note: str = "") -> Self:
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
