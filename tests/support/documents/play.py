"""One page in a world of its own: `python -m tests.support.documents.play PAGE WORLD`.

The world is a network, a tree of processes and a few directories that the machine does not see:
the pages' own ports and paths are free, and nothing that they write or start outlives the page.
Prints what came of the page as one line of JSON.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.support.documents import stage
from tests.support.documents.pages import Ends, Step, read_page
from tests.support.documents.shown import differences
from tests.support.documents.terminal import Terminal, Unfinished
from tests.support.rules.structure import TOP_LEVEL

UNSHARE: Final = (
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    "--",
)
ROOT: Final = Path(__file__).parents[3]
# What a page writes there is its own; below it lies what the machine has.
_OWN: Final = ("/etc", "/opt", "/usr/local", "/usr/lib/systemd", "/var/lib")
_LIMIT_S: Final = 600.0
_AGAIN: Final = 40


def play(page: Path, world: Path) -> dict[str, Any]:
    """Type a page's commands, and say what came of them."""
    found = read_page(page.read_text(encoding="utf-8"))
    environment = _environment(world)
    typed: list[str] = []
    faults: list[str] = []
    with ExitStack() as scopes:
        if found.cluster is not None:
            (world / "cluster").mkdir()
            environment["CLUSTER"] = str(world / "cluster")
            scopes.enter_context(
                stage.cluster(world / "cluster", found.brokers, found.cluster, world / "bin")
            )
            typed += stage.TYPED
        (world / "reader").mkdir()
        if found.is_in_clone:
            _clone(world / "reader")
        player = _Player(world / "reader", environment)
        for step in found.steps:
            typed += step.commands
            faults += [f"{page.name}:{step.line}: {fault}" for fault in player.play(step)]
            if faults:
                break
    unrun = [f"{page.name}:{each.line}: {each.why}" for each in found.unrun]
    return {"typed": typed, "unrun": unrun, "faults": faults}


class _Player:
    """Terminals of one page, of which the last is typed in."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory, self._environment = directory, environment
        self._terminal = Terminal(directory, environment)
        self._staying: Terminal | None = None

    def play(self, step: Step) -> Iterator[str]:
        """Type the commands of a step; yields what is wrong."""
        try:
            if step.interrupts:
                assert self._staying is not None, "nothing goes on that Ctrl-C could end"
                self._staying.interrupt()
                printed, code = self._staying.finish(_LIMIT_S)
                yield from self._judge(step, printed, code)
            elif step.ends is Ends.NEVER:
                yield from self._stay(step)
            else:
                yield from self._run(step)
        except Unfinished as error:
            yield f"{step.commands}: {error}"

    def _stay(self, step: Step) -> Iterator[str]:
        *earlier, last = step.commands
        yield from self._run(Step(step.line, tuple(earlier)))
        self._terminal.type(last)

        def is_enough(printed: str) -> bool:
            if step.until not in printed:
                return False
            return not any(differences(f"{step.shown or ''}\n...\n", printed))

        self._terminal.wait_for(is_enough, _LIMIT_S)
        self._staying = self._terminal
        self._terminal = Terminal(self._directory, self._environment)

    def _run(self, step: Step) -> Iterator[str]:
        printed, code = "", 0
        for number, command in enumerate(step.commands, start=1):
            is_last = number == len(step.commands)
            output, code = self._typed(command)
            if is_last and step.ends is Ends.AGAIN:
                for _ in range(_AGAIN):
                    if not any(self._judge(step, printed + output, code)):
                        break
                    output, code = self._typed(command)
            printed += output + "\n"
            if code and not is_last:
                yield f"{command}: exit code {code}:\n{printed}"
                return
        if step.commands:
            yield from self._judge(step, printed, code)

    def _typed(self, command: str) -> tuple[str, int]:
        self._terminal.type(command)
        return self._terminal.finish(_LIMIT_S)

    @staticmethod
    def _judge(step: Step, printed: str, code: int) -> Iterator[str]:
        if code != step.code:
            yield f"{step.commands}: exit code {code}, not {step.code}:\n{printed}"
        elif step.shown is not None:
            yield from differences(step.shown, printed)


def _clone(directory: Path) -> None:
    """Copy what a clone of the repository has."""
    for name in sorted(TOP_LEVEL):
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, directory)


def _environment(world: Path) -> dict[str, str]:
    """What a reader's shell has, with this checkout's commands before the machine's."""
    programs = world / "bin"
    programs.mkdir()
    (world / "home").mkdir()
    return {
        "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(world / "home"),
        "USER": "root",
        "LANG": "C.UTF-8",
        # Wide: what a page shows is not cut, and its long lines are shortened by hand.
        "TERM": "dumb",
        "COLUMNS": "600",
        "LINES": "50",
        "TMPDIR": str(world / "reader"),
        "PYTHONPYCACHEPREFIX": os.environ.get("PYTHONPYCACHEPREFIX", ""),
        # There is no network: the project's requirements are there, and it is built from here.
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # What is in several environments is newest in the one that the others are based on.
        "PYTHONPATH": ":".join(path for path in reversed(sys.path) if "site-packages" in path),
    }


def enter(world: Path) -> None:
    """Lay the page's own directories over the machine's, with the names of its hosts.

    Raises:
        subprocess.CalledProcessError: this machine does not grant it.
    """
    subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
    own = world / "own"
    own.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "tmpfs", own), check=True)
    subprocess.run(("mount", "-t", "tmpfs", "tmpfs", "/run"), check=True)
    for number, directory in enumerate(_OWN):
        upper, work = own / f"upper-{number}", own / f"work-{number}"
        upper.mkdir()
        work.mkdir()
        layers = f"lowerdir={directory},upperdir={upper},workdir={work}"
        subprocess.run(("mount", "-t", "overlay", "overlay", "-o", layers, directory), check=True)
    with Path("/etc/hosts").open("a", encoding="utf-8") as hosts:
        hosts.write(stage.HOSTS)


def main() -> None:
    """Play the page that is named."""
    page, world = (Path(argument) for argument in sys.argv[1:3])
    enter(world)
    print(json.dumps(play(page, world)))  # noqa: T201  read by who started it


if __name__ == "__main__":
    main()
