"""Small cases with what Pulsar's classes decided on them, kept for tests that have no Java.

    python -m tests.pulsar.harness.recording [RELEASE]

writes the record again; with another release than that of ``pom.xml``, what that one decides on the
same cases. They are the smallest case for each strategy and each departure that explains it
somewhere, and the smallest ones in which both sides act alike: on one bundle, two or more, with
averages that are above or below what is reported, and up to the limit of a cycle.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.pulsar.harness import cases, our_side, pulsar_side
from tests.pulsar.harness.cases import Json
from tests.pulsar.harness.comparing import compared
from tests.pulsar.harness.our_side import Cycle, Moves
from tests.pulsar.harness.shedders import SHEDDERS
from tests.support.pulsar.distribution import distribution

FILE: Final = Path(__file__).parents[1] / "recorded" / "strategies.json"
_SEED: Final = 4
_CASES: Final = 1500
_LINES: Final = 48
_MOST: Final = 3


def recorded(release: str = "") -> Iterator[tuple[Json, Json]]:
    """Each case and Pulsar's answer to it, or that of another release."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))["cases"]
    answers = {} if not release else json.loads(_file_of(release).read_text(encoding="utf-8"))
    for row in rows:
        case = row["case"]
        yield case, answers[case["name"]] if release else row["answer"]


def _file_of(release: str) -> Path:
    return FILE.with_name(f"strategies-{release}.json")


def record_answers(release: str) -> None:
    """Ask another release about the kept cases."""
    asked = [case for case, _ in recorded()]
    answers = pulsar_side.decided(asked, distribution(release))
    lines = ",\n".join(
        f"{json.dumps(case['name'])}:{json.dumps(answer, separators=(',', ':'))}"
        for case, answer in zip(asked, answers, strict=True)
    )
    _file_of(release).write_text(f"{{{lines}\n}}\n", encoding="utf-8")


def record() -> None:
    """Ask a released Pulsar, and keep what shows something."""
    pulsar = distribution()
    asked = [*cases.cases(_SEED, _CASES, _LINES)]
    kept = smallest_showing_all(zip(asked, pulsar_side.decided(asked, pulsar), strict=True))
    rows = [{"case": case, "answer": answer} for case, answer in kept]
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(f'{{"pulsar": "{pulsar.version}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")


def smallest_showing_all(decided: Iterable[tuple[Json, Json]]) -> list[tuple[Json, Json]]:
    """The smallest cases that together show everything that any case shows."""
    smallest: dict[object, int] = {}
    ranked = sorted(decided, key=lambda each: len(json.dumps(each)))
    for place, (case, answer) in enumerate(ranked):
        for key in _shown(case, answer):
            smallest.setdefault(key, place)
    return [ranked[place] for place in sorted(set(smallest.values()))]


def _shown(case: Json, answer: Json) -> Iterator[object]:
    limits = our_side.Rules.of(case).shedding
    cycles = our_side.cycles(case)
    for verdict in compared(case, answer):
        assert verdict.by is not None, verdict
        for departure in verdict.by:
            yield verdict.strategy, departure
        if verdict.by or not verdict.acts:
            continue
        count = len(verdict.ours)
        yield verdict.strategy, min(count, _MOST)
        if isinstance(verdict.ours, frozenset) and verdict.strategy in SHEDDERS:
            yield verdict.strategy, _lag(cycles[verdict.cycle], verdict.ours)
            if count == limits.uniform.max_bundles:
                yield verdict.strategy, "capped"


def _lag(cycle: Cycle, moves: Moves) -> frozenset[bool]:
    """Whether averages of what moves are above what is reported, below, or both."""
    return frozenset(
        cycle.averages[key].short.throughput > cycle.reports[source].bundles[key].throughput
        for source, key, _ in moves
        if cycle.averages[key].short.throughput != cycle.reports[source].bundles[key].throughput
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record_answers(sys.argv[1])
    else:
        record()
