"""Parts of the table that are measured one after another, and put together again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from broker_ctl.simulation.replay.replay import POLICIES
from tests.benchmarks.balancing.verdict import verdict

_Each = TypeVar("_Each")


@dataclass(frozen=True, slots=True)
class Part:
    """One of several parts that take about as long as each other."""

    number: int
    parts: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``2/4``.

        Raises:
            ValueError: not two numbers, or there is no such part.
        """
        number, _, count = text.partition("/")
        part = cls(int(number), int(count))
        if not 1 <= part.number <= part.parts:
            raise ValueError(f"{text!r}: parts are numbered 1/{count} to {count}/{count}")
        return part

    def of(self, runs: Sequence[_Each]) -> Sequence[_Each]:
        """The runs of this part: of every scenario some, since scenarios take different times."""
        return runs[self.number - 1 :: self.parts]


WHOLE: Final = Part(1, 1)


def joined(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The object of all parts, with the verdict on all scenarios.

    A replay has the same scores wherever and whenever it runs. What is measured by the clock, and
    how busy the machine was, is of the part that has it.
    """
    found: dict[str, Any] = {}
    scenarios: dict[str, dict[str, Any]] = {}
    bounds: dict[str, float] = {}
    machines: list[Any] = []
    peak_rss_mb = 0.0
    for part in parts:
        found |= {key: value for key, value in part.items() if key.startswith("planning")}
        for name, by_policy in part["scenarios"].items():
            scenarios.setdefault(name, {}).update(by_policy)
        bounds |= part["bound"]
        machines.append(part.get("machine"))
        peak_rss_mb = max(peak_rss_mb, part["peak_rss_mb"])
    ordered = {name: _in_order(by_policy) for name, by_policy in scenarios.items()}
    return {
        "scenarios": ordered,
        "bound": bounds,
        **found,
        "verdict": verdict(ordered, bounds),
        "peak_rss_mb": peak_rss_mb,
        "machine": machines,
    }


def _in_order(by_policy: Mapping[str, Any]) -> dict[str, Any]:
    return {policy: by_policy[policy] for policy in POLICIES if policy in by_policy}
