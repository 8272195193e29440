"""How many brokers the peak of the last week needs, and what that was worth the day after.

The load of a day is that of its fullest hour, in mean brokers. The advice of a day is the number
for the highest load of the days until then, a week at most; the next day judges it. It was enough
if the brokers advised, less the one that may be lost, carry the next day's peak below the limit.
Brokers beyond what the next day needed were spare (docs: advise-size).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Final, NamedTuple

from broker_ctl.core.planning.size import Needed, SizeRules, needed_brokers

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
