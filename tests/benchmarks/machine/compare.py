"""Run a benchmark by turns in two trees: at a revision, and in the working tree.

Each round runs `tests/benchmarks/NAME.py --json` once in each tree, with this interpreter; the tree
that begins changes from round to round, so that a machine that slows down slows down both. For each
figure that both trees print it shows the medians, the median of the ratios of the rounds (here over
base), and their range: with n rounds the true median lies in it with a probability of 1 - 2 ** (1 -
n), 94 of 100 for five. `differs` marks figures whose whole range is on one side of 1.

Examples:
  python tests/benchmarks/machine/compare.py HEAD~20 footprint -- --runs 1
  python tests/benchmarks/machine/compare.py 1cdc0085 lookup --rounds 7 --out rounds.jsonl
  make benchmarks-compare BASE=HEAD~20 BENCHMARK=session_expiry

--out gets each run as a line of JSON as it ends, with the load of the machine before and after, so
that nothing is lost if the rest is stopped. Exit codes: 0 compared, 1 a run failed, 2 wrong option.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_BASE: Final = "base"
_HERE: Final = "here"


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both trees.

    Attributes:
        ratios: here over base, round by round; empty where a base is 0.
    """

    name: str
    base: float
    here: float
    ratios: tuple[float, ...]

    @property
    def differs(self) -> bool:
        """Whether the whole range is on one side of 1."""
        return bool(self.ratios) and (min(self.ratios) > 1 or max(self.ratios) < 1)

    def to_row(self) -> dict[str, Any]:
        """As plain JSON values."""
        row: dict[str, Any] = {"figure": self.name, "base": self.base, "here": self.here}
        if self.ratios:
            row["ratio"] = statistics.median(self.ratios)
            row["range"] = [min(self.ratios), max(self.ratios)]
        return {**row, "differs": self.differs}


def figures(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a JSON value, by the way that leads to each."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from figures(below, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from figures(below, f"{name}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)


def compared(base: Sequence[Any], here: Sequence[Any]) -> list[Compared]:
    """The figures that all runs have, in their order."""
    both = [[dict(figures(run)) for run in runs] for runs in (base, here)]
    names = [name for name in both[0][0] if all(name in run for runs in both for run in runs)]
    found = []
    for name in names:
        old, new = ([run[name] for run in runs] for runs in both)
        pairs = zip(new, old, strict=True)
        ratios = () if 0 in old else tuple(mine / theirs for mine, theirs in pairs)
        found.append(Compared(name, statistics.median(old), statistics.median(new), ratios))
    return found


def main() -> int:
    given = _options()
    here = Path(_git("rev-parse", "--show-toplevel"))
    runs: dict[str, list[Any]] = {_BASE: [], _HERE: []}
    with _worktree(here, given.base) as base:
        trees = {_BASE: base, _HERE: here}
        for number in range(given.rounds):
            order = list(trees) if number % 2 == 0 else list(reversed(trees))
            for tree in order:
                row = _run(trees[tree], given, {"round": number, "tree": tree})
                if row is None:
                    return 1
                runs[tree].append(row)
    found = compared(runs[_BASE], runs[_HERE])
    if given.json:
        rows = [one.to_row() for one in found]
        sys.stdout.write(json.dumps({"rounds": given.rounds, "figures": rows}) + "\n")
    else:
        _show(found, given.rounds)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compare.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("base", help="revision to compare with")
    parser.add_argument("name", help="benchmark, as in tests/benchmarks/NAME.py")
    parser.add_argument("--rounds", type=int, default=5, help="runs in each tree (5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--out", type=Path, metavar="FILE", help="each run, as it ends")
    own, options = sys.argv[1:], []
    if "--" in own:
        place = own.index("--")
        own, options = own[:place], own[place + 1 :]
    given = parser.parse_args(own)
    given.options = options
    if given.rounds < 1:
        parser.error("--rounds: at least 1")
    return given


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


@contextmanager
def _worktree(here: Path, revision: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="compare-") as directory:
        tree = Path(directory).resolve() / "base"
        _git("-C", str(here), "worktree", "add", "--quiet", "--detach", str(tree), revision)
        try:
            yield tree
        finally:
            _git("-C", str(here), "worktree", "remove", "--force", str(tree))


def _run(tree: Path, given: argparse.Namespace, about: dict[str, Any]) -> Any:
    """What one run prints; None: it failed."""
    # Before an editable installation, which is of one tree.
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    asked = "import broker_ctl; print(broker_ctl.__file__)"
    which = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not which.stdout.startswith(str(tree)):
        sys.stderr.write(f"{tree}: broker_ctl is imported from {which.stdout or which.stderr}\n")
        return None
    command = [sys.executable, f"tests/benchmarks/{given.name}.py", "--json", *given.options]
    before = os.getloadavg()[0]
    done = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(f"round {about['round']}, {about['tree']}: {' '.join(command)} failed\n")
        return None
    printed = json.loads(done.stdout)
    about |= {"load_before": before, "load_after": os.getloadavg()[0], "printed": printed}
    if given.out is not None:
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(about) + "\n")
    sys.stderr.write(f"round {about['round']}, {about['tree']}: done, load {before:.1f}\n")
    return printed


def _show(found: Sequence[Compared], rounds: int) -> None:
    wide = max((len(one.name) for one in found), default=0)
    for one in found:
        line = f"{one.name:{wide}}  {one.base:12.6g}  {one.here:12.6g}"
        if one.ratios:
            span = f"{min(one.ratios):.3f} to {max(one.ratios):.3f}"
            line += f"  {statistics.median(one.ratios):.3f} ({span})"
        sys.stdout.write(line + ("  differs\n" if one.differs else "\n"))
    sure = 1 - 2.0 ** (1 - rounds)
    sys.stdout.write(f"figure, base, here, ratio (range of {rounds}: {sure:.0%} sure)\n")


if __name__ == "__main__":
    sys.exit(main())
