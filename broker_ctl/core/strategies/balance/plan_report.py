"""Turns the planner's result into decisions with load, bound and reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Final

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer
from broker_ctl.core.cluster.ends import room_text
from broker_ctl.core.cluster.view import BundleView, ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.balance import BalanceRules
from broker_ctl.core.strategies.balance.levels import Levels
from broker_ctl.core.strategies.balance.memory import BalanceMemory
from broker_ctl.core.strategies.splitting.hot_topics import REMEDY, hot_topic_of

if TYPE_CHECKING:
    from broker_ctl.core.strategies.balance.limits.obstacles import Obstacles
    from broker_ctl.core.strategies.balance.planner import Move, Relief
    from broker_ctl.core.strategies.balance.planner_input import PlannerInput

_HOUR_S: Final = 3600.0
_NO_LOAD: Final = 0.0005
_HIGH_KEY: Final = "loadBalancerPlannerHighPercentage"
_BAND_KEYS: Final = f"the band ({_HIGH_KEY})"


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The planner's result on a view.

    Attributes:
        obstacles: what keeps brokers too full.
        note: what else counts; empty: nothing.
    """

    view: ClusterView
    planner_input: "PlannerInput"
    relief: "Relief"
    obstacles: "Obstacles"
    rules: BalanceRules
    note: str = ""

    def moves(self, imposed_bytes: float, *, is_urgent: bool) -> list[Decision]:
        """Transfers; those that are not urgent within the hour's churn limit.

        What was moved to other brokers by others (``imposed_bytes``) may move again on top of it.
        """
        view, ratio = self.view, self.rules.churn_ratio
        whole_bytes = fsum(each.expected.throughput_bytes for each in view.brokers.values())
        allowed = ratio * whole_bytes + imposed_bytes
        moved_bytes = fsum(
            past.throughput_bytes for past in view.settled if view.taken_at_s - past.at_s < _HOUR_S
        )
        decisions: list[Decision] = []
        usage, surging = self._usage_before(), _surging_brokers(view)
        for move in self.relief.moves:
            transfer = self._transfer(move, usage, surging)
            moved_bytes += transfer.load_vector.throughput_bytes
            if moved_bytes > allowed and not is_urgent:
                text = (
                    f"{ratio:.0%} of the load have moved within the hour, the most "
                    "(loadBalancerPlannerChurnPercentagePerHour), "
                    + room_text(view, moved_bytes - allowed)
                )
                decisions.append(Skip(str(transfer.bundle), Reason.BUDGET_HOURLY_LOAD, text))
                break
            decisions.append(transfer)
        return decisions

    def _usage_before(self) -> dict[int, float]:
        """Usage of each broker that moves touch, before the first of them."""
        usage: dict[int, float] = {}
        for move in self.relief.moves:
            usage.setdefault(move.source, move.source_before)
            usage.setdefault(move.destination, move.destination_before)
        return usage

    def _transfer(
        self, move: "Move", usage: Mapping[int, float], surging: frozenset[str]
    ) -> Transfer:
        bundle_view = self.planner_input.bundles[move.bundle]
        source = self.view.brokers[self.planner_input.brokers[move.source]]
        destination = self.view.brokers[self.planner_input.brokers[move.destination]]
        mean = self.relief.mean_of[move.source] or 1.0
        # The plan reorders moves and drops some: the text must be right wherever the move is, so
        # it does not say what the move leads to.
        detail = (
            f"{usage[move.source] / mean:.2f} and {usage[move.destination] / mean:.2f} times the "
            f"mean usage {mean:.1%} before the plan; {self._bound_text(move.source)}"
        )
        return Transfer(
            bundle=bundle_view.bundle,
            source=source.broker_id,
            destination=destination.broker_id,
            reason=Reason.SURGE if source.broker_id in surging else Reason.IMBALANCE,
            detail=detail,
            load_vector=bundle_view.load_vector,
            source_before=source.expected,
            destination_before=destination.expected,
        )

    def stuck(self) -> list[Decision]:
        """Skips for brokers that stay too full: what holds them back, or that nothing fits."""
        found: list[Decision] = []
        for number, usage in self.relief.stuck:
            mean = self.relief.mean_of[number] or 1.0
            broker_id = self.planner_input.brokers[number]
            text = f"{usage / mean:.2f} times the mean usage {mean:.1%}"
            obstacle = self.obstacles.of(number)
            if obstacle is not None:
                found.append(Skip(broker_id, obstacle.reason, f"{text}: {obstacle.text}"))
                continue
            text = f"{text}, and no bundle of it fits anywhere within {_BAND_KEYS}"
            hot = self._hot_topic(broker_id, usage - self.rules.band.trigger(mean))
            if hot is None:
                text = f"{text}, until loads change; {self._bound_text(number)}"
                found.append(Skip(broker_id, Reason.NO_GAIN, text))
                continue
            text = f"{text}; of {hot.bundle} {hot_topic_of(hot)}: {REMEDY}"
            found.append(Skip(broker_id, Reason.HOT_TOPIC, text))
        return found

    def _hot_topic(self, broker_id: str, excess: float) -> BundleView | None:
        """The broker's heaviest bundle, if it is one topic without which it were not too full."""
        broker = self.view.brokers[broker_id]
        owned = [self.view.bundles[each] for each in broker.owned]
        if not owned:
            return None
        heaviest = max(owned, key=lambda each: (each.load_vector.usage_ratio, each.bundle))
        is_enough = heaviest.load_vector.usage_on(broker.size_ratio) >= excess
        return heaviest if is_enough and hot_topic_of(heaviest) else None

    def _bound_text(self, broker: int) -> str:
        bound = self.obstacles.bound_of(broker)
        text = f"even the best placement leaves the fullest broker at {bound:.2f} times the mean"
        return f"{text}; {self.note}" if self.note else text


def headroom_skips(view: ClusterView, memory: BalanceMemory, rules: BalanceRules) -> list[Decision]:
    """Skips where the cluster is too small to lose a broker, or a failure domain."""
    import numpy as np

    from broker_ctl.core.strategies.balance.headroom import (
        after_domain_loss,
        has_headroom,
        headroom_text,
        loss_text,
    )

    levels = memory.levels
    ids = list(levels.usage)
    if not ids:
        return []
    load = np.array([levels.load[each] for each in ids], np.float64)
    capacity = np.array([levels.capacity[each] for each in ids], np.float64)
    found: list[Decision] = []
    if not has_headroom(load, capacity, rules.headroom_ratio):
        text = headroom_text(ids, load, capacity, rules.headroom_ratio)
        found.append(Skip("cluster", Reason.HEADROOM, text))
    domains = [view.constraints.domain(each) for each in ids]
    lost = after_domain_loss(load, capacity, domains)
    if lost is not None and lost[0] > rules.headroom_ratio:
        usage, name = lost
        others = len(ids) - domains.count(name)
        text = loss_text(f"failure domain {name}", others, usage, rules.headroom_ratio)
        found.append(Skip("cluster", Reason.HEADROOM, text))
    return found


def _surging_brokers(view: ClusterView) -> frozenset[str]:
    """Brokers that carry something that has surged."""
    if not view.surges:
        return frozenset()
    carriers = (view.carrier(each) for each in view.bundles if view.surge_of(each) is not None)
    return frozenset(each for each in carriers if each is not None)


def surge_skips(view: ClusterView, memory: BalanceMemory) -> list[Decision]:
    """A note for each surge, whether it leads to moves or not."""
    known = memory.demands.known
    found: list[Decision] = []
    for subject, surge in view.surges.items():
        text = "its demand of now counts, not its average"
        demand = known.get(subject) if isinstance(subject, Bundle) else None
        if demand is not None and demand.steady != demand.recent:
            text = "it has come and gone before, so its average counts"
        found.append(Skip(str(subject), Reason.SURGE, f"{surge.text}; {text}"))
    return found


def balanced_skip(memory: BalanceMemory, rules: BalanceRules) -> Skip:
    """A skip that says that no broker is too full."""
    levels = memory.levels
    fullest = max(levels.usage, key=lambda each: (levels.ratio(each), levels.usage[each], each))
    # What is shown as 0.0% is not compared.
    if levels.usage[fullest] < _NO_LOAD:
        return Skip("cluster", Reason.BELOW_THRESHOLD, "no broker has any load to speak of")
    trigger = rules.band.trigger(levels.mean_of(fullest))
    text = f"{_usage_text(levels, fullest)} at most, up to {trigger:.1%} is tolerated"
    return Skip("cluster", Reason.BELOW_THRESHOLD, f"{text} ({_HIGH_KEY})")


def _usage_text(levels: Levels, broker_id: str) -> str:
    mean = levels.mean_of(broker_id)
    return f"{broker_id} has {levels.ratio(broker_id):.2f} times the mean usage {mean:.1%}"
