"""What one leading works with; it ends with the leading."""

from dataclasses import dataclass, replace
from typing import Self

from broker_ctl.balancer.context.bundle_history import BundleHistory
from broker_ctl.balancer.context.decision_history import DecisionHistory
from broker_ctl.balancer.context.decision_recorder import DecisionRecorder
from broker_ctl.balancer.context.dependencies import BalancerDependencies, Executor
from broker_ctl.balancer.monitoring.load_monitor import LoadMonitor
from broker_ctl.balancer.monitoring.simple_manager import SimpleManager, is_simple
from broker_ctl.balancer.monitoring.snapshot_builder import SnapshotBuilder
from broker_ctl.balancer.planning.placement import Placements
from broker_ctl.coordination.election.leadership import Leadership


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """The rooms of one leading, wired."""

    parts: BalancerDependencies
    leadership: Leadership
    board: LoadMonitor
    memory: BundleHistory
    survey: SnapshotBuilder
    outcomes: DecisionRecorder
    kept: DecisionHistory
    placements: Placements
    hands: Executor

    @classmethod
    def of(cls, parts: BalancerDependencies, leadership: Leadership) -> Self:
        """Build them; nothing is started."""
        simple = SimpleManager(parts.store) if is_simple(parts.rules()) else None
        rules = parts.rules
        board = LoadMonitor(
            parts.store, parts.clock, sample_s=lambda: rules().average_sample_s, simple=simple
        )
        if simple is not None:
            parts = replace(parts, rules=lambda: simple.steered(rules()))
        memory = BundleHistory(parts.clock)
        survey = SnapshotBuilder(parts, leadership.epoch, board, memory)
        kept = DecisionHistory(parts.store, leadership)
        outcomes = DecisionRecorder(parts.journal, parts.clock, leadership.epoch, kept.record)
        placements = Placements(parts, leadership, board, survey)
        hands = parts.hands(parts, leadership, memory, outcomes, placements.choose)
        return cls(parts, leadership, board, memory, survey, outcomes, kept, placements, hands)
