"""What one leading works with; it ends with the leading."""

from dataclasses import dataclass, replace
from typing import Self

from broker_ctl.balancer.context.bundle_history import BundleMemory
from broker_ctl.balancer.context.decision_history import KeptDecisions
from broker_ctl.balancer.context.decision_recorder import Outcomes
from broker_ctl.balancer.context.dependencies import Hands, LeaderParts
from broker_ctl.balancer.monitoring.load_monitor import LoadBoard
from broker_ctl.balancer.monitoring.simple_manager import SimpleManager, is_simple
from broker_ctl.balancer.monitoring.snapshot_builder import Survey
from broker_ctl.balancer.planning.placement import Placements
from broker_ctl.coordination.election.leadership import Leadership


@dataclass(frozen=True, slots=True)
class Leading:
    """The rooms of one leading, wired."""

    parts: LeaderParts
    leadership: Leadership
    board: LoadBoard
    memory: BundleMemory
    survey: Survey
    outcomes: Outcomes
    kept: KeptDecisions
    placements: Placements
    hands: Hands

    @classmethod
    def of(cls, parts: LeaderParts, leadership: Leadership) -> Self:
        """Build them; nothing is started."""
        simple = SimpleManager(parts.store) if is_simple(parts.rules()) else None
        rules = parts.rules
        board = LoadBoard(
            parts.store, parts.clock, sample_s=lambda: rules().average_sample_s, simple=simple
        )
        if simple is not None:
            parts = replace(parts, rules=lambda: simple.steered(rules()))
        memory = BundleMemory(parts.clock)
        survey = Survey(parts, leadership.epoch, board, memory)
        kept = KeptDecisions(parts.store, leadership)
        outcomes = Outcomes(parts.journal, parts.clock, leadership.epoch, kept.record)
        placements = Placements(parts, leadership, board, survey)
        hands = parts.hands(parts, leadership, memory, outcomes, placements.choose)
        return cls(parts, leadership, board, memory, survey, outcomes, kept, placements, hands)
