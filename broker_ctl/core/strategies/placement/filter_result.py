"""What a filter of placement answers: who stays, and why each of the others went."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol, Self

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.rules.rules import PlacementRules

_MOST_TOLD: Final = 3


class Rejection(NamedTuple):
    """Why a broker does not receive a bundle; ``words`` go on after its id."""

    reason: Reason
    words: str


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Who stays, and why each of the others went, in the order in which they did."""

    staying: tuple[str, ...]
    gone: dict[str, Rejection] = field(default_factory=dict)

    @classmethod
    def by(cls, candidates: Sequence[str], refusal: Callable[[str], Rejection | None]) -> Self:
        """Each candidate goes for whom ``refusal`` has one."""
        answers = {broker_id: refusal(broker_id) for broker_id in candidates}
        return cls(
            tuple(broker_id for broker_id, answer in answers.items() if answer is None),
            {broker_id: answer for broker_id, answer in answers.items() if answer is not None},
        )

    def then(self, later: "FilterResult") -> "FilterResult":
        """With what the next filter left of those who stayed."""
        return FilterResult(later.staying, {**self.gone, **later.gone})

    @property
    def reason(self) -> Reason:
        """Why the last one went."""
        last = next(reversed(self.gone.values()), None)
        return Reason.NO_BROKER if last is None else last.reason

    def only(self, broker_id: str) -> "FilterResult":
        """What is said of one broker."""
        return FilterResult(
            tuple(each for each in self.staying if each == broker_id),
            {each: why for each, why in self.gone.items() if each == broker_id},
        )

    def told(self, sentence: str) -> str:
        """The sentence, and why the others went, the latest first; of many only some."""
        last = [
            f"{each} {why.words}" for each, why in islice(reversed(self.gone.items()), _MOST_TOLD)
        ]
        rest = len(self.gone) - len(last)
        return "; ".join([sentence, *last, *([f"{rest} more passed over"] if rest else [])])


class Filter(Protocol):
    """One reason not to give a bundle to a broker."""

    def __call__(
        self, view: ClusterView, bundle: Bundle, candidates: Sequence[str], rules: PlacementRules
    ) -> FilterResult:
        """What it leaves of ``candidates``, all in ``view.brokers``."""
        ...
