"""Gives mutants to their suites, and says which suite saw which."""

import queue
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants.mutant import Mutant, Suite
from tests.mutants.suites import Outcome, repeat, run_suite
from tests.mutants.tree import Tree


@dataclass(frozen=True, slots=True)
class Sight:
    """How one suite did.

    ``is_false``: what failed with the mutant fails without it too, and proves nothing.
    """

    suite: Suite
    outcome: Outcome
    is_false: bool = False

    @property
    def has_seen(self) -> bool:
        return bool(self.outcome.by) and not self.is_false

    def to_row(self) -> dict[str, Any]:
        return {
            "suite": self.suite.kind,
            "seen": self.has_seen,
            "by": self.outcome.by,
            "runs": self.outcome.runs,
            "seconds": self.outcome.seconds,
        } | ({"also_without_mutant": True} if self.is_false else {})


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a mutant."""

    mutant: Mutant
    sights: tuple[Sight, ...]

    @property
    def has_survived(self) -> bool:
        return not any(sight.has_seen for sight in self.sights)

    def to_row(self) -> dict[str, Any]:
        return {
            "name": self.mutant.name,
            "sentence": self.mutant.sentence,
            "files": sorted({edit.file for edit in self.mutant.edits}),
            "survived": self.has_survived,
            "suites": [sight.to_row() for sight in self.sights],
        }

    def __str__(self) -> str:
        said = []
        for sight in self.sights:
            what = "schedules" if sight.suite.kind == "schedules" else "tests"
            outcome = sight.outcome
            so = f"{sight.suite.kind}, {outcome.runs} {what}, {outcome.seconds} s"
            if sight.is_false:
                said.append(f"{so}: FAILS ALSO WITHOUT IT: {outcome.by}")
            else:
                said.append(f"{so}: {outcome.by or 'nothing'}")
        state = "SURVIVED" if self.has_survived else "seen"
        return f"{self.mutant.name}: {state} ({'; '.join(said)})"


OnJudged = Callable[[Judgement], None]


def judge_all(
    mutants: Sequence[Mutant], jobs: int, on_judged: OnJudged, *, is_every_suite: bool = False
) -> list[Judgement]:
    """Judge all, ``jobs`` at a time.

    Without ``is_every_suite`` a mutant is given to no further suite once one has seen it.
    """
    waiting: queue.SimpleQueue[Tree] = queue.SimpleQueue()

    def judged(mutant: Mutant) -> Judgement:
        tree = waiting.get()
        try:
            found = _judge(tree, mutant, is_every_suite=is_every_suite)
        finally:
            waiting.put(tree)
        on_judged(found)
        return found

    # The pool is left before the trees: it waits for what they run, unless that is ended first.
    with _trees(min(jobs, len(mutants))) as trees, ThreadPoolExecutor(len(trees)) as pool:
        for tree in trees:
            waiting.put(tree)
        try:
            return list(pool.map(judged, mutants))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for tree in trees:
                tree.close()
            raise


@contextmanager
def _trees(count: int) -> Iterator[list[Tree]]:
    # What was ended may still write below it.
    with (
        tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        yield [
            stack.enter_context(closing(Tree(Path(name) / str(number)))) for number in range(count)
        ]


def _judge(tree: Tree, mutant: Mutant, *, is_every_suite: bool) -> Judgement:
    sights: list[Sight] = []
    for suite in mutant.suites:
        with tree.planted(mutant.edits):
            outcome = run_suite(tree, suite)
        is_false = bool(outcome.by) and bool(repeat(tree, suite, outcome).by)
        sights.append(Sight(suite, outcome, is_false))
        if sights[-1].has_seen and not is_every_suite:
            break
    return Judgement(mutant, tuple(sights))
