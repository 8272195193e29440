"""What the load balancer offers to the API, as protocols: tests replace it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from broker_ctl.core.cluster.plan_file import PlanFile
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.commands import Reply
from broker_ctl.core.model.names import Namespace


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which decisions are asked for, ``result`` an `Outcome.result`; None: whatever it is.

    Attributes:
        kind: of the decision: ``transfer``, ``split`` and so on.
        broker: one that the decision is about.
        bundle: one that the decision is about.
        within_s: not older than this.
        limit: at most so many, the newest.
    """

    kind: str | None = None
    broker: str | None = None
    bundle: str | None = None
    within_s: float | None = None
    limit: int = 100
    result: str | None = None


class AdminOperations(Protocol):
    """Plans, drains and the history of decisions, at the leader; answers are plain JSON values."""

    async def plan(self, *, is_verbose: bool) -> Reply:
        """The plan of the next cycle and its effect; nothing is done."""

    async def plan_of_file(self, file: PlanFile) -> Reply:
        """The part of a placement plan that can be done now; in force once approved."""

    async def approve(self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False) -> Reply:
        """Execute a plan proposed by `plan` or `plan_of_file`.

        Raises:
            PlanMissing, OrderConflict: the plan is unknown or expired; empty, or another is open.
        """

    async def plans(self) -> list[dict[str, Any]]:
        """The plan in execution, or the last one."""

    async def stop_plan(
        self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> Reply:
        """Stop an approved plan; moves in flight still end.

        Raises:
            PlanMissing, OrderConflict: no such plan was approved; it has ended.
        """

    def drains(self) -> list[dict[str, Any]]:
        """Progress of each drain."""

    async def drain(
        self, broker_id: str, who: str, why: str, *, is_forced: bool, is_dry_run: bool = False
    ) -> Reply:
        """Drain a broker: it receives nothing and is emptied; returns the progress.

        A dry run writes nothing, and returns the `DrainForecast`.

        Raises:
            OrderConflict: no other broker could receive, or the others lack capacity.
        """

    async def undrain(self, broker_id: str) -> bool:
        """End a drain; false: the broker was not drained."""

    def history(self, wanted: HistoryFilter) -> list[dict[str, Any]]:
        """The newest decisions of this leader with their outcomes, newest first."""


class BalancerAdmin(Protocol):
    """Requests to the load balancer while this broker leads."""

    @property
    def operations(self) -> AdminOperations:
        """Plans, drains and history.

        Raises:
            NoLeader: this broker does not lead.
        """

    def overview(self) -> Mapping[str, Any]:
        """Brokers, bundles, imbalance, moves and settings of the loop, as plain JSON values."""

    def explain(self, subject: str) -> Mapping[str, Any]:
        """State and last decisions of a broker or a bundle.

        Raises:
            InvalidName: neither a live broker nor a bundle.
        """

    async def move(
        self, bundle: Bundle, destination: str, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Transfer a bundle for an operator; returns when the destination serves it.

        A dry run moves nothing; the answer names the source: ``{bundle, from, to}``.

        Raises:
            OwnershipError, NoBroker, PeerError: reason of the failure.
        """

    async def special_bundle(self, namespace: Namespace, name: str) -> Bundle:
        """The bundle of a namespace that is ``LARGEST`` or ``HOT``.

        Raises:
            BundleGone: no bundle of the namespace was reported.
        """

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

        Raises:
            OwnershipError, NoBroker, PeerError: reason of the failure.
        """

    async def merge(
        self, left: Bundle, right: Bundle, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Merge two neighbours for an operator, after moving one if necessary.

        A dry run merges and moves nothing; the answer names the owner: ``{bundle, owner}``.

        Raises:
            OwnershipError, NoBroker, PeerError: reason of the failure.
        """
