"""The protocol of placement strategies: from a view to a receiver."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules


@dataclass(frozen=True, slots=True)
class Choice:
    """The receiver of a bundle and the reason; ``broker_id`` is None if there is none."""

    broker_id: str | None
    reason: Reason
    detail: str


class PlacementPolicy(Protocol):
    """Chooses one of the feasible brokers."""

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """Choose among ``candidates``, all in ``view.brokers``; ties by ``draw_seed``."""
        ...
