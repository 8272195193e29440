"""Draws mutants from all changes of some folders, and chooses the tests that should see each."""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from tests.mutants.mutant import Mutant, Suite
from tests.mutants.sampling.sites import Change, changes_of
from tests.mutants.tree import ROOT

# What the safety sentences rest on most.
FOLDERS: Final = ("core", "coordination", "store/zookeeper")
# Files of tests that a module counts as its own: its namesakes, and the smallest that import it.
_MOST_OWN: Final = 3
# Where what is below a folder is tested besides its own tests.
_BEYOND: Final = {
    "core/machines": ("coordination",),
    "core/partitions": ("controller/state", "controller/procedures", "broker/replicas"),
    "core/cluster": ("core/planning",),
    "core/rules": ("core/planning",),
    "core/strategies": ("core/planning",),
    "coordination": ("coordination", "broker/ownership/test_acquire.py", "balancer/execution"),
    "store/zookeeper": ("contract/test_multi.py", "contract/test_sessions.py"),
}


def draw(count: int, seed: int, folders: Sequence[str] = FOLDERS) -> list[Mutant]:
    """Mutants of one change each; the same for the same sources and seed."""
    changes = [change for folder in folders for change in _changes_below(folder)]
    drawn = random.Random(seed).sample(changes, min(count, len(changes)))
    return [_mutant_of(change) for change in drawn]


def count_of(folders: Sequence[str] = FOLDERS) -> int:
    """How many changes there are."""
    return sum(1 for folder in folders for _ in _changes_below(folder))


def _changes_below(folder: str) -> Iterator[Change]:
    for path in sorted((ROOT / "broker_ctl" / folder).rglob("*.py")):
        yield from changes_of(path.relative_to(ROOT).as_posix(), path.read_text())


def _mutant_of(change: Change) -> Mutant:
    return Mutant(str(change), "", (change,), tuple(suites_of(change.file)))


def suites_of(file: str) -> Iterator[Suite]:
    """First the tests of the module, then those of its folder, then those of its users."""
    inside = PurePosixPath(file).relative_to("broker_ctl")
    folder = f"tests/{_test_folder(inside.parent)}"
    yield Suite("own", _own_tests(inside) or (folder,))
    yield Suite("folder", (folder,))
    for above in (inside, *inside.parents):
        if beyond := _BEYOND.get(above.as_posix()):
            yield Suite("users", tuple(f"tests/{name}" for name in beyond))
            return


def _test_folder(folder: PurePosixPath) -> str:
    """The folder of tests that mirrors one of the package, or the nearest above."""
    while not (ROOT / "tests" / folder).is_dir():
        folder = folder.parent
    return folder.as_posix()


def _own_tests(inside: PurePosixPath) -> tuple[str, ...]:
    """Files of tests on the same floor that import the module; the namesake is the first."""
    module = ".".join(("broker_ctl", *inside.with_suffix("").parts))
    imports = re.compile(rf"^(?:from|import) {re.escape(module)}\b", re.MULTILINE)
    floor = ROOT / "tests" / inside.parts[0]
    found = [path for path in sorted(floor.rglob("test_*.py")) if imports.search(path.read_text())]
    found.sort(key=lambda path: (inside.stem not in path.stem, path.stat().st_size))
    return tuple(path.relative_to(ROOT).as_posix() for path in found[:_MOST_OWN])
