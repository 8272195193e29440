"""Operations on rollouts: restarts of the brokers of a cluster, one after the other."""

from typing import Any

from broker_ctl.balancer.admin.in_term import RunInTerm
from broker_ctl.balancer.planning.rollout.office_holders import find_seats
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.core.rollout.forecast import RolloutForecast
from broker_ctl.core.rollout.order import RolloutScope


class RolloutOperations:
    """Rollouts in one term; answers are plain JSON values."""

    def __init__(self, term: LeaderTerm, run_in_term: RunInTerm) -> None:
        self._term = term
        self._dependencies = term.dependencies
        self._run_in_term = run_in_term

    async def forecast(self, scope: RolloutScope) -> dict[str, Any]:
        """What a rollout would do; nothing is done. ``refusal`` says why it would not begin.

        Raises:
            OrderConflict: a broker is not alive, or nothing would be left to serve.
            StoreError: the view could not be taken.
            NoLeader: this broker does not lead (any more).
        """

        async def forecast(term: LeaderTerm) -> dict[str, Any]:
            await term.leadership.wait_deciding()
            seats = await find_seats(self._dependencies)
            view = await term.snapshot_builder.build()
            rules = self._dependencies.rules()
            found = await self._dependencies.planner.run(
                RolloutForecast.of, view, scope, seats, rules.placement_rules, rules.budgets
            )
            limit_ratio = rules.shedding_rules.balance.headroom_ratio
            return {
                **scope.to_row(),
                "leader": seats.leader,
                "controller": seats.controller or None,
                **found.to_row(),
                "refusal": found.refusal(limit_ratio),
            }

        return await self._run_in_term(forecast, "plan a rollout")
