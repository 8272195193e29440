"""A brute-force judge of reasons: every single move and every exchange of a small cluster.

It knows nothing of the planner's search: only its band and its rule of what a gain is.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import product
from typing import Final

from broker_ctl.core.rules.leader_rules import Band

REST: Final = "loadBalancerSheddingGracePeriodMinutes"
RETURN: Final = "loadBalancerPlannerReturnMinutes"
PLACE: Final = "policy "
SILENT: Final = "loadBalancerBrokerLoadDataTTLInSeconds"
LIMIT: Final = "loadBalancerBrokerLimits"
KINDS: Final = (REST, RETURN, PLACE, SILENT, LIMIT)
_NOTHING: Final = 1e-9


@dataclass(frozen=True)
class Small:
    """A small cluster with one resource; bundles by number.

    Attributes:
        size: usage that each bundle causes.
        owner: broker of each bundle.
        resting: bundles that rest.
        former: the broker that a bundle must not return to.
        allowed: brokers of each bundle by the policies.
        silent: brokers without a recent report.
        most: usage that each broker may have at most.
        done: bundles that the plan has moved already.
    """

    size: tuple[float, ...]
    owner: tuple[str, ...]
    brokers: tuple[str, ...]
    resting: AbstractSet[int]
    former: Mapping[int, str]
    allowed: Mapping[int, AbstractSet[str]]
    silent: AbstractSet[str]
    most: Mapping[str, float]
    done: AbstractSet[int]

    def usage(self, broker: str) -> float:
        return sum(s for s, at in zip(self.size, self.owner, strict=True) if at == broker)

    def is_better(self, giver: str, band: Band, lifted: AbstractSet[str]) -> bool:
        """Whether a move or an exchange relieves the giver if some kinds did not count."""
        kinds = {self._allowed(b, lifted) for b, at in enumerate(self.owner) if at == giver}
        return any(self._relieves(giver, kind, band, lifted) for kind in kinds)

    def _allowed(self, bundle: int, lifted: AbstractSet[str]) -> frozenset[str]:
        return frozenset(self.brokers if PLACE in lifted else self.allowed[bundle])

    def _relieves(
        self, giver: str, kind: frozenset[str], band: Band, lifted: AbstractSet[str]
    ) -> bool:
        before = self.usage(giver)
        mean = sum(map(self.usage, kind)) / len(kind)
        if giver not in kind or before <= band.trigger(mean) + _NOTHING:
            return False
        target = band.target(mean)
        mine = [b for b in self._givable(giver, lifted) if self._allowed(b, lifted) == kind]
        for bundle, there in product(mine, kind - {giver}):
            if not self._may(bundle, there, lifted):
                continue
            size, other = self.size[bundle], self.usage(there)
            peak = other + size
            if peak <= target + _NOTHING and max(peak, before - size) < before - _NOTHING:
                return True
            if peak >= before - _NOTHING or not self._may_take(giver, lifted):
                continue
            for back in self._givable(there, lifted):
                ours, theirs = before - size + self.size[back], peak - self.size[back]
                if (
                    self._may(back, giver, lifted, less=size)
                    and theirs <= target + _NOTHING
                    and max(ours, theirs) < peak - _NOTHING
                    and ours <= (before + target) / 2
                ):
                    return True
        return False

    def _givable(self, broker: str, lifted: AbstractSet[str]) -> list[int]:
        return [
            bundle
            for bundle, at in enumerate(self.owner)
            if at == broker
            and bundle not in self.done
            and (bundle not in self.resting or REST in lifted)
        ]

    def _may_take(self, broker: str, lifted: AbstractSet[str]) -> bool:
        return broker not in self.silent or SILENT in lifted

    def _may(self, bundle: int, there: str, lifted: AbstractSet[str], less: float = 0.0) -> bool:
        after = self.usage(there) - less + self.size[bundle]
        return (
            there in self._allowed(bundle, lifted)
            and self._may_take(there, lifted)
            and (self.former.get(bundle) != there or RETURN in lifted)
            and (after <= self.most[there] * (1 + 1e-9) or LIMIT in lifted)
        )
