"""The controller's rules, from the settings."""

from dataclasses import dataclass

from broker_ctl.core.partitions.values import TopicRules


@dataclass(frozen=True, slots=True)
class ControllerRules:
    """The current settings of the controller.

    Attributes:
        is_unclean_allowed, min_isr: defaults for topics without their own.
        acknowledge_s: seconds within which a broker must acknowledge an instruction; afterwards it
            counts as dead if another replica can lead.
        max_queued: maximum number of one broker's instructions in ZKQueue; more are replaced by one
            full instruction.
        is_rebalancing: whether leadership returns to preferred replicas automatically.
        imbalance_percent: share of a broker's preferred partitions led elsewhere above which the
            broker gets leaderships back.
        imbalance_check_s: interval of that check.
    """

    is_unclean_allowed: bool = False
    min_isr: int = 1
    acknowledge_s: float = 10.0
    max_queued: int = 64
    is_rebalancing: bool = True
    imbalance_percent: float = 10.0
    imbalance_check_s: float = 300.0

    def with_defaults(self, rules: TopicRules) -> TopicRules:
        """Return the topic's own rules, completed by the settings."""
        is_allowed = rules.is_unclean_allowed
        return TopicRules(
            self.is_unclean_allowed if is_allowed is None else is_allowed,
            rules.min_isr or self.min_isr,
        )
