"""How many brokers the cluster needs: now, for growth, after a loss, and by the last week."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, fsum, isfinite
from typing import Any, Final, NamedTuple

from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.rules.leader_rules import BalanceRules
from broker_ctl.core.strategies.balance.demands import Resources

# How many brokers the cluster needs: now, for growth, and after a loss.
#
# The figures are bounds, as the headroom is: all load, spread over brokers of the mean size, with
# the fullest of them as far above the mean as the planner tolerates, stays within the limit for
# each resource. Bundles that cannot be divided, and placement under constraints, need more.


# Rounding must not cost a broker.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class SizeRules:
    """What the brokers must bear.

    Attributes:
        limit_ratio: usage that no broker should exceed (loadBalancerHeadroomLimitPercentage).
        imbalance: usage of the fullest broker over the mean that the planner tolerates.
        growth_ratio: by how much the load is assumed to grow; 0.2 is 20 %.
        largest: size of the largest broker, which may be lost, over that of the mean one.
        domains: failure domains over which the brokers are spread evenly; below 2: none.
    """

    limit_ratio: float
    imbalance: float
    growth_ratio: float = 0.0
    largest: float = 1.0
    domains: int = 0

    @classmethod
    def of(cls, rules: BalanceRules) -> "SizeRules":
        """Those of the planner."""
        return cls(rules.headroom_ratio, rules.band.high)

    @property
    def without_growth(self) -> "SizeRules":
        """The same for a load that is known."""
        return replace(self, growth_ratio=0.0)

    def lost_brokers(self, brokers: int) -> int:
        """Brokers that the worst loss takes, of that number."""
        lost = ceil(self.largest - _ROUNDING)
        return max(lost, ceil(brokers / self.domains)) if self.domains > 1 else lost


class Needed(NamedTuple):
    """Numbers of brokers of the mean size; see `SizeAdvice`."""

    needed: int
    with_broker_lost: int
    with_domain_lost: int | None

    @property
    def recommended(self) -> int:
        """Those that bear the worse loss."""
        return max(self.with_broker_lost, self.with_domain_lost or 0)


def needed_brokers(mean_brokers: float, rules: SizeRules) -> Needed:
    """How many brokers a load needs that fills ``mean_brokers`` mean brokers."""
    share = mean_brokers * (1 + rules.growth_ratio)
    needed = max(1, ceil(share * rules.imbalance / rules.limit_ratio - _ROUNDING))
    with_domain_lost = _with_domain_lost(needed, rules.domains) if rules.domains > 1 else None
    return Needed(needed, needed + ceil(rules.largest - _ROUNDING), with_domain_lost)


@dataclass(frozen=True, slots=True)
class SizeAdvice:
    """Numbers of brokers of the mean size.

    Attributes:
        brokers: those that are there and not draining.
        growth_ratio: by how much the load is assumed to grow; 0.2 is 20 %.
        usage_ratio: mean usage of the tightest resource with that growth, on the brokers there.
        limit_ratio: usage that no broker should exceed (loadBalancerHeadroomLimitPercentage).
        needed: brokers that carry the load.
        needed_with_broker_lost: brokers of which one, the largest, may be lost.
        needed_with_domain_lost: brokers of which a whole failure domain may be lost, if they are
            spread evenly over as many domains; None without at least two domains.
        recommended: the largest of these.
    """

    brokers: int
    growth_ratio: float
    usage_ratio: float
    limit_ratio: float
    needed: int
    needed_with_broker_lost: int
    needed_with_domain_lost: int | None
    recommended: int

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values, with the sentence."""
        return {**asdict(self), "missing": self.missing, "sentence": self.sentence}

    @property
    def missing(self) -> int:
        """Brokers to add; below 0: as many may go."""
        return self.recommended - self.brokers

    @property
    def sentence(self) -> str:
        """One line for people."""
        if self.missing > 0:
            verdict = f"add {self.missing}"
        elif self.missing < 0:
            verdict = f"{-self.missing} may go"
        else:
            verdict = "the number is right"
        return f"{self.brokers} brokers, {self.recommended} are recommended: {verdict}"


def advise_size(
    view: ClusterView, rules: BalanceRules, growth_ratio: float = 0.0
) -> SizeAdvice | None:
    """The advice on a view; None where no broker says what it can take.

    A draining broker counts with its load, which the others will have, and not with its capacity.
    """
    resources = Resources.of(view, rules.weights)
    staying = [broker for broker in view.brokers.values() if not broker.is_draining]
    if resources.is_bytes or not staying:
        return None
    share = _mean_brokers(view, staying, resources)
    sizes = [broker.size_ratio for broker in staying]
    domains = Counter(view.constraints.domain(broker.broker_id) for broker in staying)
    del domains[""]
    size_rules = replace(
        SizeRules.of(rules),
        growth_ratio=growth_ratio,
        largest=max(sizes) * len(sizes) / fsum(sizes),
        domains=len(domains),
    )
    found = needed_brokers(share, size_rules)
    return SizeAdvice(
        brokers=len(staying),
        growth_ratio=growth_ratio,
        usage_ratio=share * (1 + growth_ratio) / len(staying),
        limit_ratio=rules.headroom_ratio,
        needed=found.needed,
        needed_with_broker_lost=found.with_broker_lost,
        needed_with_domain_lost=found.with_domain_lost,
        recommended=found.recommended,
    )


def _mean_brokers(view: ClusterView, staying: list[BrokerView], resources: Resources) -> float:
    """How many mean brokers the load fills in its tightest resource."""
    capacities: Mapping[str, tuple[float, ...]] = resources.capacities(view)
    used = [resources.used(broker.load.usage) for broker in view.brokers.values()]
    filled = 0.0
    for place, demands in enumerate(zip(*used, strict=True)):
        limits = [capacities[broker.broker_id][place] for broker in staying]
        if all(map(isfinite, limits)):
            filled = max(filled, fsum(demands) / (fsum(limits) / len(limits)))
    return filled


def _with_domain_lost(needed: int, domains: int) -> int:
    """The fewest brokers, spread evenly over the domains, of which the largest domain may go."""
    count = needed + 1
    while count - ceil(count / domains) < needed:
        count += 1
    return count


def usage_after_loss(view: ClusterView, rules: BalanceRules) -> dict[str, float]:
    """Usage of the fullest resource at best once the worst is lost: ``broker``, ``domain``.

    A domain only where there are two; nothing where no broker says what it can take.
    """
    import numpy as np

    from broker_ctl.core.strategies.balance.headroom import after_domain_loss, after_loss

    resources = Resources.of(view, rules.weights)
    if resources.is_bytes or not view.brokers:
        return {}
    capacities = resources.capacities(view)
    load = np.array([resources.used(each.load.usage) for each in view.brokers.values()])
    capacity = np.array([capacities[each] for each in view.brokers])
    domains = [view.constraints.domain(each) for each in view.brokers]
    found = {"broker": after_loss(load, capacity)[0]}
    if (lost := after_domain_loss(load, capacity, domains)) is not None:
        found["domain"] = lost[0]
    return found


# How many brokers the peak of the last week needs, and what that was worth the day after.
#
# The load of a day is that of its fullest hour, in mean brokers. The advice of a day is the
# number for the highest load of the days until then, a week at most; the next day judges it. It
# was enough if the brokers advised, less the one that may be lost, carry the next day's peak
# below the limit. Brokers beyond what the next day needed were spare (docs: advise-size).


WEEK_DAYS: Final = 7


class DayLoad(NamedTuple):
    """The fullest hour of one day.

    Attributes:
        day: its date, or its number.
        mean_brokers: how many mean brokers that hour filled in the tightest resource.
    """

    day: str
    mean_brokers: float


@dataclass(frozen=True, slots=True)
class DayVerdict:
    """The advice of one day, judged by the next one.

    Attributes:
        day: the day that judges.
        advised: brokers, by the days before.
        needed: brokers that the day needed.
        usage_ratio: usage of the fullest broker in its peak, with one of the advised brokers lost.
        is_enough: whether that is within the limit.
    """

    day: str
    advised: int
    needed: int
    usage_ratio: float
    is_enough: bool

    @property
    def spare(self) -> int:
        """Brokers more than the day needed; below 0: as many were missing."""
        return self.advised - self.needed

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "day": self.day,
            "advised": self.advised,
            "needed": self.needed,
            "spare": self.spare,
            "usage_after_loss_ratio": self.usage_ratio,
            "is_enough": self.is_enough,
        }


@dataclass(frozen=True, slots=True)
class SizeBacktest:
    """What the advice was worth on each day after the first one.

    Attributes:
        window_days: days whose peak counted.
    """

    window_days: int
    verdicts: tuple[DayVerdict, ...]

    @property
    def days_enough(self) -> int:
        """Days for which the advice of the day before was enough."""
        return sum(each.is_enough for each in self.verdicts)

    @property
    def spare_brokers(self) -> float:
        """Brokers more than needed, a day on the mean; those missing do not make up for them."""
        if not self.verdicts:
            return 0.0
        return fsum(max(0, each.spare) for each in self.verdicts) / len(self.verdicts)

    @property
    def most_missing(self) -> int:
        """Brokers that were missing on the worst day."""
        return max((max(0, -each.spare) for each in self.verdicts), default=0)

    @property
    def sentence(self) -> str:
        """One line for people."""
        days = len(self.verdicts)
        window = "the day alone" if self.window_days == 1 else f"the last {self.window_days} days"
        return (
            f"by the peak of {window}: enough on {self.days_enough} of {days} days, "
            f"{self.spare_brokers:.1f} brokers spare on the mean, "
            f"{self.most_missing} missing at worst"
        )

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "window_days": self.window_days,
            "days": len(self.verdicts),
            "days_enough": self.days_enough,
            "spare_brokers": self.spare_brokers,
            "most_missing": self.most_missing,
            "sentence": self.sentence,
            "verdicts": [each.to_row() for each in self.verdicts],
        }


def weekly_peak(days: Sequence[DayLoad], window_days: int = WEEK_DAYS) -> DayLoad | None:
    """The day with the highest load of the newest ``window_days``; None without days."""
    return max(days[-window_days:], key=lambda each: each.mean_brokers, default=None)


def advise_for_peak(
    days: Sequence[DayLoad], rules: SizeRules, window_days: int = WEEK_DAYS
) -> Needed | None:
    """The brokers that the peak of the newest days needs; None without days."""
    peak = weekly_peak(days, window_days)
    return None if peak is None else needed_brokers(peak.mean_brokers, rules)


def backtest_size(
    days: Sequence[DayLoad], rules: SizeRules, window_days: int = WEEK_DAYS
) -> SizeBacktest:
    """Judge the advice of each day by the next one; the growth counts for the advice alone."""
    hindsight = rules.without_growth
    verdicts: list[DayVerdict] = []
    for number in range(1, len(days)):
        today = days[number]
        advice = advise_for_peak(days[:number], rules, window_days)
        assert advice is not None
        advised, lost = advice.recommended, rules.lost_brokers(advice.recommended)
        usage_ratio = today.mean_brokers * rules.imbalance / max(1, advised - lost)
        needed = needed_brokers(today.mean_brokers, hindsight).recommended
        verdicts.append(
            DayVerdict(today.day, advised, needed, usage_ratio, is_enough=advised >= needed)
        )
    return SizeBacktest(window_days, tuple(verdicts))
