"""The result of a placement filter: feasible brokers, and why the others were rejected."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol, Self

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules

_MAX_EXPLAINED: Final = 3


class Rejection(NamedTuple):
    """Why a broker does not receive a bundle; ``words`` follow its id in a sentence."""

    reason: Reason
    words: str


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Feasible brokers, and the rejected ones in the order of their rejection."""

    feasible: tuple[str, ...]
    rejected: dict[str, Rejection] = field(default_factory=dict)

    @classmethod
    def by(cls, candidates: Sequence[str], reject: Callable[[str], Rejection | None]) -> Self:
        """Partition candidates: ``reject`` returns a rejection, or None for a feasible broker."""
        rejected = {
            broker_id: verdict
            for broker_id in candidates
            if (verdict := reject(broker_id)) is not None
        }
        if not rejected:
            return cls(tuple(candidates))
        return cls(tuple(each for each in candidates if each not in rejected), rejected)

    def then(self, later: "FilterResult") -> "FilterResult":
        """The result after the next filter, which was given the feasible brokers."""
        if not self.rejected:
            return later
        return FilterResult(later.feasible, {**self.rejected, **later.rejected})

    @property
    def reason(self) -> Reason:
        """Reason of the last rejection; NO_BROKER if there is none."""
        last = next(reversed(self.rejected.values()), None)
        return Reason.NO_BROKER if last is None else last.reason

    def for_broker(self, broker_id: str) -> "FilterResult":
        """The result for one broker alone."""
        return FilterResult(
            tuple(each for each in self.feasible if each == broker_id),
            {each: why for each, why in self.rejected.items() if each == broker_id},
        )

    def explain(self, sentence: str) -> str:
        """The sentence and the last three rejections, the latest first, and a count of the rest."""
        last = [
            f"{each} {why.words}"
            for each, why in islice(reversed(self.rejected.items()), _MAX_EXPLAINED)
        ]
        rest = len(self.rejected) - len(last)
        return "; ".join([sentence, *last, *([f"{rest} more passed over"] if rest else [])])


class Filter(Protocol):
    """One reason not to give a bundle to a broker."""

    def __call__(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> FilterResult:
        """Judge ``candidates``, all in ``view.brokers``."""
        ...
