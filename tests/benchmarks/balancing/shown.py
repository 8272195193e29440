"""The object as tables."""

from collections.abc import Mapping
from typing import Any, Final

from broker_ctl.cli.runtime.output import print_facts, print_table

_COLUMNS: Final = (
    *("p50", "p99", "max", "load_moved_pct_per_h", "moves", "back_and_forth"),
    *("settle_min", "overload_broker_min"),
)


def show(found: Mapping[str, Any]) -> None:
    """One table a scenario, then all that is said of them together."""
    for name, by_policy in found["scenarios"].items():
        rows = [
            (policy, *(_text(scores[column]) for column in _COLUMNS))
            for policy, scores in by_policy.items()
        ]
        title = f"{name}, bound {found['bound'][name]:.3f}"
        print_table(title, ("policy", *_COLUMNS), rows)
    rest = {key: value for key, value in found.items() if key not in {"scenarios", "bound"}}
    print_facts("benchmark", rest)


def _text(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "never" if value is None else value
