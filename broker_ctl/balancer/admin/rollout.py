"""Operations on rollouts: restarts of the brokers of a cluster, one after the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.balancer.admin.manual_actions import RunInTerm
from broker_ctl.balancer.planning.directives import require_executable
from broker_ctl.balancer.planning.rollout.observer import find_seats
from broker_ctl.balancer.planning.rollout.runner import RolloutRunner
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.cluster.directives import AuditInfo
from broker_ctl.core.rollout.broker_machine import BrokerRolloutEvent as BrokerEvent
from broker_ctl.core.rollout.forecast import RolloutForecast, RolloutScope, Seats
from broker_ctl.core.rollout.machine import RolloutEvent
from broker_ctl.core.rollout.rollout import Rollout, RolloutTerms
from broker_ctl.errors import InvalidTransition, OrderConflict

ACTS: Final[Mapping[str, RolloutEvent]] = {
    "pause": RolloutEvent.PAUSE,
    "resume": RolloutEvent.RESUME,
    "abort": RolloutEvent.ABORT,
}
# What a driver says of a broker; None: it has found it ready at its address.
REPORTS: Final[Mapping[str, BrokerEvent | None]] = {
    "restart_began": BrokerEvent.RESTART_BEGAN,
    "restarted": BrokerEvent.RESTARTED,
    "healthy": None,
    "failed": BrokerEvent.FAIL,
}


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """What an operator asks for."""

    scope: RolloutScope
    terms: RolloutTerms
    who: str = ""
    why: str = ""


class RolloutOperations:
    """Rollouts in one term; answers are plain JSON values.

    Args:
        term: of the leader.
        runner: carries them out.
        wake: makes the leader look at them now.
        run_in_term: see `RunInTerm`.
    """

    def __init__(
        self,
        term: LeaderTerm,
        runner: RolloutRunner,
        wake: Callable[[], None],
        run_in_term: RunInTerm,
    ) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._runner = runner
        self._wake = wake
        self._run_in_term = run_in_term

    async def forecast(self, scope: RolloutScope) -> dict[str, Any]:
        """What a rollout would do; nothing is done. ``refusal`` says why it would not begin.

        Raises:
            OrderConflict: a broker is not alive, or nothing would be left to serve.
            StoreError: the view could not be taken.
            NoLeader: this broker does not lead (any more).
        """

        async def forecast(term: LeaderTerm) -> dict[str, Any]:
            seats, found = await self._forecast(term, scope)
            return self._row(scope, seats, found)

        return await self._run_in_term(forecast, "plan a rollout")

    async def begin(self, request: RolloutRequest, *, is_dry_run: bool = False) -> dict[str, Any]:
        """Begin a rollout; a dry run returns the forecast.

        Raises:
            OrderConflict: another is in progress; brokers are lost; the rest cannot carry the load.
            StoreError: it was not written.
            NoLeader: this broker does not lead (any more).
        """

        async def begin(term: LeaderTerm) -> dict[str, Any]:
            pause = self._dependencies.directives.pause
            if pause is not None and pause.is_automatic:
                raise OrderConflict(f"no broker may restart now: {pause.order.why}")
            await require_executable(term)
            seats, found = await self._forecast(term, request.scope)
            row = self._row(request.scope, seats, found)
            if row["refusal"] and not request.terms.accepts_overload:
                raise OrderConflict(f"{row['refusal']}; --accept-overload accepts it")
            now_ms = self._dependencies.clock.wall_ms()
            wanted = Rollout.begin(
                f"{now_ms:x}",
                AuditInfo.of(now_ms, request.who, request.why),
                request.terms,
                tuple(batch.brokers for batch in found.batches),
                least_moves=found.least_moves,
            )
            await self._runner.check_begin()
            if is_dry_run:
                return row
            return self._rollout_row(await self._runner.begin(wanted))

        row = await self._run_in_term(begin, "begin a rollout")
        self._wake()
        return row

    async def current(self) -> dict[str, Any]:
        """The rollout in progress, or the last one.

        Raises:
            RolloutMissing: there was none.
            StoreError: it could not be read.
            NoLeader: this broker does not lead (any more).
        """

        async def current(_: LeaderTerm) -> dict[str, Any]:
            return self._rollout_row(await self._runner.current())

        return await self._run_in_term(current, "show the rollout")

    async def act(
        self, act: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> dict[str, Any]:
        """Do one of `ACTS`.

        Raises:
            RolloutMissing: there is no rollout.
            OrderConflict: the act does not fit its state.
            StoreError: it was not written.
            NoLeader: this broker does not lead (any more).
        """
        note = f"{act} by {who or 'an operator'}" + (f": {why}" if why else "")

        async def change(_: LeaderTerm) -> dict[str, Any]:
            try:
                changed = await self._runner.act(ACTS[act], note, is_dry_run=is_dry_run)
            except InvalidTransition as error:
                raise OrderConflict(f"{act} does not fit: {error}") from error
            return self._rollout_row(changed)

        row = await self._run_in_term(change, f"{act} the rollout")
        self._wake()
        return row

    async def note_restart(self, broker_id: str, report: str, detail: str) -> dict[str, Any]:
        """Note what a driver says of a broker: one of `REPORTS`.

        Raises:
            RolloutMissing: there is no rollout, or it is not the broker's.
            OrderConflict: it does not fit the state of the broker.
            StoreError: it was not written.
            NoLeader: this broker does not lead (any more).
        """

        async def note(_: LeaderTerm) -> dict[str, Any]:
            try:
                changed = await self._runner.note_restart(broker_id, REPORTS[report], detail)
            except InvalidTransition as error:
                raise OrderConflict(f"{report} does not fit: {error}") from error
            return self._rollout_row(changed)

        row = await self._run_in_term(note, f"{report} of {broker_id}")
        self._wake()
        return row

    async def _forecast(
        self, term: LeaderTerm, scope: RolloutScope
    ) -> tuple[Seats, RolloutForecast]:
        await term.leadership.wait_deciding()
        seats = await find_seats(self._dependencies)
        view, rules = await term.snapshot_builder.build(), self._dependencies.rules()
        unseen = sorted(self._dependencies.registry.peers.keys() - view.brokers.keys())
        if unseen and not scope.brokers:
            # They would be left out, and would go on with what they run now.
            raise OrderConflict(
                f"{', '.join(unseen)[:200]} registered, and has not reported its load yet: wait "
                "for it, or name the brokers (--brokers)"
            )
        found = await self._dependencies.planner.run(
            RolloutForecast.of, view, scope, seats, rules.placement_rules, rules.budgets
        )
        return seats, found

    def _rollout_row(self, rollout: Rollout) -> dict[str, Any]:
        """A rollout with the addresses of its brokers, for the driver.

        Brokers of a cluster that is balanced from outside have none: they do not know of it.
        """
        row = rollout.to_row(self._dependencies.clock.wall_ms())
        is_outside = self._dependencies.is_healthy is not None
        for broker in row["brokers"]:
            peer = self._dependencies.registry.peer(broker["broker"])
            urls = None if peer is None or is_outside else peer.urls.for_administration
            broker["url"] = None if urls is None else urls[1] or urls[0]
        return row

    def _row(self, scope: RolloutScope, seats: Seats, found: RolloutForecast) -> dict[str, Any]:
        rules = self._dependencies.rules()
        return {
            **scope.to_row(),
            "leader": seats.leader or None,
            "controller": seats.controller or None,
            **found.to_row(),
            "from_outside": self._dependencies.is_healthy is not None,
            "refusal": found.refusal(rules.shedding_rules.balance.headroom_ratio),
        }
