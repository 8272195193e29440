"""How many brokers the cluster needs: now, for growth, and after a loss.

The figures are bounds, as the headroom is: all load, spread over brokers of the mean size, with the
fullest of them as far above the mean as the planner tolerates, stays within the limit for each
resource. Bundles that cannot be divided, and placement under constraints, need more.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil, fsum, isfinite
from typing import Any, Final, NamedTuple

from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.rules.balance import BalanceRules
from broker_ctl.core.strategies.balance.resources import Resources

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
