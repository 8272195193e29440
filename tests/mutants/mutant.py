"""A mutant: a planted break of the package, and the suites that must see it."""

import ast
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Protocol

# How many schedules a mutant may take until one of them sees it.
MOST_SCHEDULES: Final = 256


KINDS: Final = ("unit", "contract", "scenarios", "schedules")
# Of sampled mutants.
SAMPLED_KINDS: Final = ("own", "folder", "users")


class StaleEdit(ValueError):
    """The old text of an edit is not, or not only once, in its file."""


class Edit(Protocol):
    """A change of one source file, whose path begins with the package."""

    @property
    def file(self) -> str: ...

    def apply(self, source: str) -> str:
        """The source with the change; raises `StaleEdit`."""
        ...


@dataclass(frozen=True, slots=True)
class Replace:
    """Replaces the one occurrence of a text."""

    file: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        if (count := source.count(self.old)) != 1:
            raise StaleEdit(f"{self.file} has {count} times: {self.old!r}")
        changed = source.replace(self.old, self.new)
        ast.parse(changed)
        return changed


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests to run: paths for pytest, or seeds of schedules.

    Attributes:
        kind: one of `KINDS` or `SAMPLED_KINDS`.
        paths: files and folders of tests, in the order in which they run.
        seed, schedules: the first schedule, and how many at most.
    """

    kind: str
    paths: tuple[str, ...] = ()
    seed: int = 0
    schedules: int = 0


def unit(*paths: str) -> Suite:
    """Tests of the room itself; ``paths`` without their first folder."""
    return Suite("unit", tuple(f"tests/{path}" for path in paths))


def contract(*paths: str) -> Suite:
    """The contract of the stores, or tests against real ZooKeeper servers."""
    return Suite("contract", tuple(f"tests/{path}" for path in paths))


def scenarios(*names: str) -> Suite:
    """Scenarios of the deterministic suite, by the names of their files."""
    return Suite("scenarios", tuple(f"tests/deterministic/scenarios/{name}.py" for name in names))


def schedules(seed: int = 0, count: int = MOST_SCHEDULES) -> Suite:
    """Seeded schedules of the deterministic suite."""
    return Suite("schedules", seed=seed, schedules=count)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted break.

    Attributes:
        name: what it does, in a few words.
        sentence: the sentence that it endangers, or more than one.
        edits: made together.
        suites: those that must see it, the fastest first.
        equal: proof that no suite can see it; empty: one must.
    """

    name: str
    sentence: str
    edits: tuple[Edit, ...]
    suites: tuple[Suite, ...]
    equal: str = ""

    def proven_equal(self, proof: str) -> "Mutant":
        """The same, with the proof that it changes nothing."""
        return replace(self, equal=proof)

    def with_suites(self, kinds: Collection[str]) -> "Mutant":
        """The same, for suites of some kinds only."""
        return replace(self, suites=tuple(suite for suite in self.suites if suite.kind in kinds))


def plant(name: str, sentence: str, file: str, old: str, new: str, *suites: Suite) -> Mutant:
    """A mutant with one edit; ``file`` without its first folder."""
    return Mutant(name, sentence, (Replace(f"broker_ctl/{file}", old, new),), suites)
