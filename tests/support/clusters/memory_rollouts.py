"""A leader's rollouts, without a cluster behind them: what it is asked for is noted."""

from typing import Any

from broker_ctl.balancer.admin.rollout import RolloutOperations, RolloutRequest
from broker_ctl.core.rollout.forecast import RolloutScope
from broker_ctl.errors import NoLeader, OrderConflict, RolloutMissing


class MemoryRollouts(RolloutOperations):
    """Answers with the plan of two brokers.

    Attributes:
        asked: scopes of the plans that were asked for.
        refusal: why the rollout would not begin.
        begun: what was asked for.
        said: acts of operators, and what the driver said.
        has_restarts: whether the first broker waits for the driver; otherwise all have restarted.
    """

    def __init__(self) -> None:
        self.asked: list[RolloutScope] = []
        self.refusal = ""
        self.is_leading = True
        self.begun: list[RolloutRequest] = []
        self.said: list[tuple[str, ...]] = []
        self.states: dict[str, str] = {}
        self.state = "running"
        self.has_restarts = False

    async def forecast(self, scope: RolloutScope) -> dict[str, Any]:
        if not self.is_leading:
            raise NoLeader("the test says so")
        self.asked.append(scope)
        return {
            **scope.to_row(),
            "leader": "b:1",
            "controller": None,
            "batches": [batch("a:1", "b:1"), batch("b:1", "a:1")],
            "moves": 20,
            "moves_given_back": 4,
            "least_moves": 18,
            "highest_usage_ratio": 0.8,
            "duration_s": 84.0,
            "longest_drain_s": 12.0,
            "from_outside": False,
            "refusal": self.refusal,
        }

    async def begin(self, request: RolloutRequest, *, is_dry_run: bool = False) -> dict[str, Any]:
        plan = await self.forecast(request.scope)
        if self.refusal and not request.terms.accepts_overload:
            raise OrderConflict(self.refusal)
        if is_dry_run:
            return plan
        self.begun.append(request)
        self.states = {"a:1": "empty", "b:1": "waiting"}
        if not self.has_restarts:
            self._end()
        return await self.current()

    async def current(self) -> dict[str, Any]:
        if not self.states:
            raise RolloutMissing("no rollout has begun")
        return {
            "id": "r1",
            "state": self.state,
            "note": "a:1: exit code 3" if self.state == "stopped" else "",
            "by": "anna",
            "gate_timeout_s": 300,
            "brokers": [
                {
                    "broker": name,
                    "state": state,
                    "changed_ms": 1,
                    "healthy": state == "done",
                    "detail": "",
                    "url": None,
                }
                for name, state in self.states.items()
            ],
            "restarted": list(self.states.values()).count("done"),
            "moves": 20,
            "least_moves": 18,
            "eta_s": 5.0,
        }

    async def act(
        self, act: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> dict[str, Any]:
        row = await self.current()
        if not is_dry_run:
            self.said.append((act, who, why))
            self.state = {"pause": "paused", "resume": "running", "abort": "aborted"}[act]
            if act == "resume" and not self.has_restarts:
                self._end()
        return await self.current() if not is_dry_run else row

    async def note_restart(self, broker_id: str, report: str, detail: str) -> dict[str, Any]:
        """The first broker that has restarted is at once well, and so is the other one."""
        self.said.append((report, broker_id, detail))
        if report == "restart_began":
            self.states[broker_id] = "restarting"
        elif report == "restarted":
            self._end()
        elif report == "failed":
            self.states[broker_id], self.state = "failed", "stopped"
        return await self.current()

    def _end(self) -> None:
        self.states, self.state = dict.fromkeys(self.states, "done"), "done"


def batch(broker_id: str, receiver: str) -> dict[str, Any]:
    return {
        "brokers": [broker_id],
        "moves": 8,
        "receivers": {receiver: 8},
        "staying": 0,
        "highest_usage_ratio": 0.8,
        "fullest": receiver,
        "drain_s": 12.0,
    }
