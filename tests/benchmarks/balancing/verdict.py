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
    """Whether ``one`` is nowhere worse and somewhere better; p99s within the tie band are equal."""
    ahead: float = other["p99"] - one["p99"]
    saved: float = other["load_moved_pct_per_h"] - one["load_moved_pct_per_h"]
    band = TIE + _ROUNDING
    return ahead >= -band and saved >= 0 and (ahead > band or saved > 0)


def verdict(
    scenarios: Mapping[str, Mapping[str, Scores]], bounds: Mapping[str, float]
) -> dict[str, Any]:
    """Of our policy against each of the others; empty where it did not take part."""
    fields = {name: field for name, field in scenarios.items() if OURS in field}
    if not fields:
        return {}
    rivals = list(dict.fromkeys(name for field in fields.values() for name in field))
    rivals.remove(OURS)
    by_scenario = {
        name: {
            "dominated_by": [r for r in rivals if r in field and dominates(field[r], field[OURS])],
            "dominates": [r for r in rivals if r in field and dominates(field[OURS], field[r])],
            "lower_p99_than": [
                r for r in rivals if r in field and field[OURS]["p99"] < field[r]["p99"] - TIE
            ],
        }
        for name, field in fields.items()
    }
    return {
        "scenarios": by_scenario,
        "is_dominated_in": [name for name, each in by_scenario.items() if each["dominated_by"]],
        "dominates": _counts(by_scenario, "dominates", rivals),
        "lower_p99_than": _counts(by_scenario, "lower_p99_than", rivals),
        "median_p99": median(field[OURS]["p99"] for field in fields.values()),
        "median_limit": median(max(_GOOD, _NEAR_BOUND * bounds[name]) for name in fields),
        "median_load_moved_pct_per_h": median(
            field[OURS]["load_moved_pct_per_h"] for field in fields.values()
        ),
        "back_and_forth": sum(field[OURS]["back_and_forth"] for field in fields.values()),
    }


def _counts(
    by_scenario: Mapping[str, Mapping[str, list[str]]], key: str, rivals: list[str]
) -> dict[str, int]:
    """In how many scenarios each rival is in the list."""
    return {rival: sum(rival in each[key] for each in by_scenario.values()) for rival in rivals}
