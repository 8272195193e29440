"""What every placement strategy is: one function from a view to a receiver."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules


@dataclass(frozen=True, slots=True)
class Choice:
    """Who receives a bundle and why; ``broker_id`` is None where nobody can."""

    broker_id: str | None
    reason: Reason
    detail: str


class PlacementPolicy(Protocol):
    """Chooses among brokers that may all receive the bundle."""

    def select(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> Choice:
        """The receiver out of ``candidates``, all in ``view.brokers``; ties by ``draw_seed``."""
        ...
