"""Plans, drains and history of a leader in memory, which moves nothing."""

from collections.abc import Mapping
from typing import Any

from broker_ctl.balancer.admin.operations import (
    NOW,
    BalancerOperations,
    HistoryFilter,
    ProposalOperations,
)
from broker_ctl.core.cluster.decisions import Reason, Skip, Transfer
from broker_ctl.core.cluster.directives import DrainTerms
from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.core.history.rows import BalancePoint
from broker_ctl.core.model.load import LoadVector
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.drain_forecast import DrainForecast, Receiver
from broker_ctl.errors import BrokerCtlError
from tests.support.clusters.memory_rollouts import MemoryRollouts

BUNDLE = Bundle.parse("t/ns/0x00000000_0x40000000")
SKIP = Skip("cluster", Reason.BELOW_THRESHOLD, "5 % above the mean")


class MemoryOperations(BalancerOperations):
    """Says what a leader would, and notes what was asked of it; ``refuse`` makes it say no."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.drained: dict[str, dict[str, Any]] = {}
        self.approved: list[dict[str, Any]] = []
        self.refuse: BrokerCtlError | None = None
        self.plan_row: dict[str, Any] = planned()
        self.rollout = MemoryRollouts()
        self.proposals = MemoryProposals(self)

    async def plan(self, *, is_verbose: bool) -> Mapping[str, Any]:
        self.asked.append(("plan", is_verbose))
        return self.plan_row | ({"skipped": [SKIP.to_row()]} if is_verbose else {})

    async def healing_plan(self, *, is_verbose: bool) -> Mapping[str, Any]:
        self._note("healing_plan", is_verbose)
        return self.plan_row

    async def plan_of_file(self, file: PlanFile) -> Mapping[str, Any]:
        self._note("plan_of_file", file)
        return self.plan_row | {"skipped": [SKIP.to_row()], "hash": file.hash}

    async def approve(
        self, plan_id: str, who: str, why: str, digest: str = "", *, is_dry_run: bool = False
    ) -> Mapping[str, Any]:
        assert digest in {"", self.plan_row["digest"]}
        if is_dry_run:
            self._refuse()
            return approved(plan_id, who, why)
        self._note("approve", plan_id, who, why)
        self.approved = [approved(plan_id, who, why)]
        return self.approved[0]

    async def plans(self) -> list[dict[str, Any]]:
        if self.approved and self.approved[0]["state"] == "approved":
            done = {"state": "done", "waiting": 0, "done": 2}
            self.approved, shown = [self.approved[0] | done], self.approved
            return shown
        return self.approved

    async def stop_plan(
        self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> Mapping[str, Any]:
        if is_dry_run:
            self._refuse()
            return approved(plan_id, who, why)
        self._note("stop", plan_id, who, why)
        return approved(plan_id, who, why) | {"state": "stopped"}

    def drains(self) -> list[dict[str, Any]]:
        rows = [dict(row) for row in self.drained.values()]
        for row in self.drained.values():
            if row["state"] != "scheduled":
                row.update(state="drained", bundles_left=0, progress_ratio=1.0, eta_s=0.0)
        return rows

    async def drain(
        self,
        broker_id: str,
        who: str,
        why: str,
        terms: DrainTerms = NOW,
        *,
        is_dry_run: bool = False,
    ) -> Mapping[str, Any]:
        if is_dry_run:
            self._refuse()
            found = scheduled(broker_id, terms) if terms.begins_ms else forecast(broker_id)
            return self.drained.get(broker_id) or found
        self._note("drain", broker_id, who, why, terms)
        row = scheduled(broker_id, terms) if terms.begins_ms else draining(broker_id)
        return self.drained.setdefault(broker_id, row)

    async def undrain(self, broker_id: str) -> bool:
        self._note("undrain", broker_id)
        return self.drained.pop(broker_id, None) is not None

    def history(self, wanted: HistoryFilter) -> list[dict[str, Any]]:
        self.asked.append(("history", wanted))
        row = SKIP.to_row()
        return [{**row, "at_ms": 1, "cycle": 4, "result": "skipped", "outcome": "", "took_s": 0.0}]

    def imbalance(self, most: int) -> list[dict[str, Any]]:
        self.asked.append(("imbalance", most))
        points = (BalancePoint(1000, 2.4, 2.0), BalancePoint(4000, 1.05, 1.2))
        return [point.to_row() for point in points]

    def _refuse(self) -> None:
        if self.refuse is not None:
            raise self.refuse

    def _note(self, *asked: Any) -> None:
        self._refuse()
        self.asked.append(asked)


class MemoryProposals(ProposalOperations):
    """Of one role, for the plan that this leader shows."""

    def __init__(self, operations: MemoryOperations) -> None:
        self._operations = operations
        self._open: list[dict[str, Any]] = []

    def plan(self, plan_id: str) -> Mapping[str, Any]:
        self._operations._note("proposed_plan", plan_id)
        return self._row("bert", "")

    def open(self) -> list[dict[str, Any]]:
        return self._open

    async def propose(
        self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> Mapping[str, Any]:
        row = self._row(who, why)
        if not is_dry_run:
            self._operations._note("propose", plan_id, who, why)
            self._open = [row]
        return row

    def _row(self, who: str, why: str) -> dict[str, Any]:
        times = {"proposed_ms": 1, "expires_ms": 600_001}
        return self._operations.plan_row | times | {"proposed_by": who, "proposal_reason": why}


def planned() -> dict[str, Any]:
    """The forecast of a plan with one transfer."""
    load_vector, none = LoadVector(0.1, 1e8, 100.0, 5), LoadVector(0.5)
    move = Transfer(BUNDLE, "a:1", "b:1", Reason.OVERLOADED, "why", load_vector, none, none)
    return {
        "id": "0123456789ab",
        "digest": f"0123456789ab{'0' * 52}",
        "held_back": "",
        "epoch": 9,
        "sentence": "plan of epoch 9: 1 transfer",
        "decisions": [move.to_row()],
        "usage_imbalance_before": 1.5,
        "usage_imbalance_after": 1.1,
        "throughput_imbalance_before": 1.6,
        "throughput_imbalance_after": 1.2,
        "moves": 1,
        "load_moved_bytes_per_s": 1e8,
        "load_moved_ratio": 0.05,
        "skipped_by_reason": {"cooling_down": 3},
    }


def approved(plan_id: str, who: str, why: str) -> dict[str, Any]:
    """A plan of two decisions that a leader is about to carry out."""
    counts = {"decisions": 2, "waiting": 2, "done": 0, "obsolete": 0, "failed": 0}
    origin = {"since_ms": 1, "by": who, "reason": why, "changed_ms": 1, "note": ""}
    return {"id": plan_id, "state": "approved", **origin, **counts}


def forecast(broker_id: str) -> dict[str, Any]:
    """The forecast of a drain."""
    receivers = (Receiver("b:1", 3, 2e8, 0.4, 0.6), Receiver("c:1", 1, 1e8, 0.4, 0.5))
    staying = {str(BUNDLE): "isolation: nobody can receive it"}
    return DrainForecast(broker_id, 4, 3e8, receivers, staying, 0.5).to_row()


def draining(broker_id: str) -> dict[str, Any]:
    """A drain that has just begun."""
    return {
        "broker": broker_id,
        "since_ms": 1,
        "by": "",
        "reason": "",
        "state": "draining",
        "bundles_begun": 4,
        "bundles_left": 3,
        "throughput_left_bytes_per_s": 3e8,
        "progress_ratio": 0.25,
        "moves_per_s": 0.5,
        "eta_s": 6.0,
    }


def scheduled(broker_id: str, terms: DrainTerms) -> dict[str, Any]:
    """A drain that begins later."""
    return {
        "broker": broker_id,
        "since_ms": 1,
        "by": "anna",
        "reason": "",
        "state": "scheduled",
        "begins_ms": terms.begins_ms,
        "ends_ms": terms.ends_ms or None,
        "until_restart": terms.until_restart,
        "obstacle": "",
    }
