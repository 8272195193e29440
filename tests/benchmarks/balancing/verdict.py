"""Which policy is better than which, on p99 and on load moved."""

from collections.abc import Mapping
from statistics import median
from typing import Any, Final

OURS: Final = "balance"
TIE: Final = 0.01
_GOOD: Final = 1.15
_NEAR_BOUND: Final = 1.05
_ROUNDING: Final = 1e-9

Scores = Mapping[str, Any]


def dominates(one: Scores, other: Scores) -> bool:
    """Whether ``one`` is worse by no score and better by at least one; p99s in the tie band tie."""
    ahead: float = other["p99"] - one["p99"]
    saved: float = other["load_moved_pct_per_h"] - one["load_moved_pct_per_h"]
    band = TIE + _ROUNDING
    return ahead >= -band and saved >= 0 and (ahead > band or saved > 0)


def verdict(
    scenarios: Mapping[str, Mapping[str, Scores]], bounds: Mapping[str, float]
) -> dict[str, Any]:
    """Our policy against each of the others; empty where ours did not take part."""
    fields = {name: field for name, field in scenarios.items() if OURS in field}
    if not fields:
        return {}
    others = list(dict.fromkeys(name for field in fields.values() for name in field))
    others.remove(OURS)
    by_scenario = {
        name: {
            "dominated_by": [o for o in others if o in field and dominates(field[o], field[OURS])],
            "dominates": [o for o in others if o in field and dominates(field[OURS], field[o])],
            "lower_p99_than": [
                o for o in others if o in field and field[OURS]["p99"] < field[o]["p99"] - TIE
            ],
        }
        for name, field in fields.items()
    }
    return {
        "scenarios": by_scenario,
        "is_dominated_in": [name for name, each in by_scenario.items() if each["dominated_by"]],
        "dominates": _counts(by_scenario, "dominates", others),
        "lower_p99_than": _counts(by_scenario, "lower_p99_than", others),
        "median_p99": median(field[OURS]["p99"] for field in fields.values()),
        "median_limit": median(max(_GOOD, _NEAR_BOUND * bounds[name]) for name in fields),
        "median_load_moved_pct_per_h": median(
            field[OURS]["load_moved_pct_per_h"] for field in fields.values()
        ),
        "back_and_forth": sum(field[OURS]["back_and_forth"] for field in fields.values()),
    }


def _counts(
    by_scenario: Mapping[str, Mapping[str, list[str]]], key: str, others: list[str]
) -> dict[str, int]:
    """The number of scenarios in whose list each of the other policies is."""
    return {other: sum(other in each[key] for each in by_scenario.values()) for other in others}
