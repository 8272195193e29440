"""A leader's rollouts, without a cluster behind them: what it is asked for is noted."""

from typing import Any

from broker_ctl.balancer.admin.rollout import RolloutOperations
from broker_ctl.core.rollout.order import RolloutScope
from broker_ctl.errors import NoLeader


class MemoryRollouts(RolloutOperations):
    """Answers with the plan of two brokers.

    Attributes:
        asked: scopes of the plans that were asked for.
        refusal: why the rollout would not begin.
    """

    def __init__(self) -> None:
        self.asked: list[RolloutScope] = []
        self.refusal = ""
        self.is_leading = True

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
            "refusal": self.refusal,
        }


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
