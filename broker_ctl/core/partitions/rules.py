"""What the controller takes from the settings."""

from dataclasses import dataclass

from broker_ctl.core.partitions.values import TopicRules


@dataclass(frozen=True, slots=True)
class ControllerRules:
    """Settings of the controller, as they stand at a turn.

    Attributes:
        is_unclean_allowed, min_isr: of topics that do not say.
        acknowledge_s: a broker that has not acknowledged an instruction by then counts as dead
            where another replica can lead.
        max_queued: of one broker's instructions in ZKQueue; more become one full instruction.
        is_rebalancing: whether leadership goes back to preferred replicas by itself.
        imbalance_percent: above which share of its preferred partitions led elsewhere a broker
            gets them back.
        imbalance_check_s: how often that is looked at.
    """

    is_unclean_allowed: bool = False
    min_isr: int = 1
    acknowledge_s: float = 10.0
    max_queued: int = 64
    is_rebalancing: bool = True
    imbalance_percent: float = 10.0
    imbalance_check_s: float = 300.0

    def with_defaults(self, rules: TopicRules) -> TopicRules:
        """What a topic asks for, which goes first, with the settings where it does not say."""
        is_allowed = rules.is_unclean_allowed
        return TopicRules(
            self.is_unclean_allowed if is_allowed is None else is_allowed,
            rules.min_isr or self.min_isr,
        )
