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
        """What the next cycle would do, and what that would reach; nothing is done."""

    async def plan_of_file(self, file: PlanFile) -> Reply:
        """What of a placement plan can be done now; once it is approved it is in force."""

    async def approve(self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False) -> Reply:
        """Have a plan carried out that `plan` or `plan_of_file` has told of.

        Raises:
            PlanMissing, OrderConflict: it is not known (any more); it is empty, or another is open.
        """

    async def plans(self) -> list[dict[str, Any]]:
        """The plan that is carried out, or the last one that was."""

    async def stop_plan(
        self, plan_id: str, who: str, why: str, *, is_dry_run: bool = False
    ) -> Reply:
        """Begin nothing more of an approved plan.

        Raises:
            PlanMissing, OrderConflict: no such plan was approved; it is over.
        """

    def drains(self) -> list[dict[str, Any]]:
        """How far each drain has come."""

    async def drain(
        self, broker_id: str, who: str, why: str, *, is_forced: bool, is_dry_run: bool = False
    ) -> Reply:
        """Empty a broker, and let it receive nothing; how far that is.

        A dry run writes nothing, and answers as `core.drain_forecast.DrainForecast` tells it.

        Raises:
            OrderConflict: nobody else could receive anything, or the others have no room for it.
        """

    async def undrain(self, broker_id: str) -> bool:
        """Let a broker receive again; false where it was not drained."""

    def history(self, wanted: HistoryFilter) -> list[dict[str, Any]]:
        """The newest decisions of this leader with what came of them, newest first."""


class BalancerAdmin(Protocol):
    """What the surface may ask of a broker while it leads."""

    @property
    def operations(self) -> AdminOperations:
        """Plans, drains and history.

        Raises:
            NoLeader: this broker does not lead.
        """

    def overview(self) -> Mapping[str, Any]:
        """Brokers, bundles, imbalance, moves and settings of the loop, as plain JSON values."""

    def explain(self, subject: str) -> Mapping[str, Any]:
        """What the leader knows of a broker id or of a bundle, and what it last decided on it.

        Raises:
            InvalidName: neither a live broker nor a bundle.
        """

    async def move(
        self, bundle: Bundle, destination: str, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Transfer a bundle by order of an operator; returns when it is served there.

        A dry run moves nothing; either way the answer says from where: ``{bundle, from, to}``.

        Raises:
            OwnershipError, NoBroker, PeerError: why it was not moved.
        """

    async def special_bundle(self, namespace: Namespace, name: str) -> Bundle:
        """The bundle of a namespace that is ``LARGEST`` or ``HOT``.

        Raises:
            BundleGone: nothing was reported of any.
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
        """Split a bundle by order of an operator; then move what came of it to better places.

        Raises:
            OwnershipError, NoBroker, PeerError: why it was not split.
        """

    async def merge(
        self, left: Bundle, right: Bundle, who: str = "", *, is_dry_run: bool = False
    ) -> Reply:
        """Merge two neighbours by order of an operator, one of which may have to move first.

        A dry run merges and moves nothing; either way the answer says where: ``{bundle, owner}``.

        Raises:
            OwnershipError, NoBroker, PeerError: why they were not merged.
        """
