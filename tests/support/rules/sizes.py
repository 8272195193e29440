"""Prints what is large: `python -m tests.support.rules.sizes`. A warning, for a reader to judge.

A class of one subject may be long; a file that has two subjects may be cut.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.rules import structure
from tests.support.rules.structure import Breach

_ROOT: Final = Path(__file__).parents[3]
_BUDGETS: Final = {
    "broker_ctl": structure.PACKAGE,
    "docs": structure.PACKAGE,
    "tests": structure.TESTS,
}
_MOST_MODULES: Final = 20


def large(root: Path) -> Iterator[Breach]:
    """Files, functions, classes and folders beyond what one reads at once."""
    files = structure.files_of(root)
    for path in files:
        budget = _BUDGETS.get(path.parts[0])
        if budget is not None and path.suffix == ".py":
            yield from structure.over_budget(path, (root / path).read_text(), budget)
    yield from structure.crowded(files, _MOST_MODULES)


if __name__ == "__main__":
    for breach in sorted(large(_ROOT)):
        print(f"warning: {breach}")
