"""A copy of the repository in which mutants are planted: the working tree is never touched."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from tests.mutants.mutant import Edit

ROOT: Final = Path(__file__).parents[2]
# What the tests read.
_COPIED: Final = ("broker_ctl", "config", "deploy", "docs", "tests")
_FILES: Final = ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
_LEFT_OUT: Final = shutil.ignore_patterns(".*", "_build")


class Tree:
    """A copy below ``directory``, which must not exist, and a process that runs modules in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "tree"
        self.scratch = directory / "scratch"
        self.scratch.mkdir(parents=True)
        for name in _COPIED:
            shutil.copytree(ROOT / name, self.directory / name, ignore=_LEFT_OUT)
        for name in _FILES:
            shutil.copy2(ROOT / name, self.directory / name)
        self._runner = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.warm"],
            cwd=self.directory,
            # Schedules are replayed under these hashes; the package is the copy.
            env={**os.environ, "PYTHONPATH": str(self.directory), "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process, and what it runs."""
        self._runner.terminate()
        self._runner.communicate()

    def run(self, module: str, arguments: Sequence[str], limit_s: float) -> tuple[int, str]:
        """Exit status and output of a module; it is ended at the limit."""
        assert self._runner.stdin is not None
        assert self._runner.stdout is not None
        output = self.scratch / "output"
        order = json.dumps([module, str(output), limit_s, list(arguments)])
        self._runner.stdin.write(f"{order}\n")
        self._runner.stdin.flush()
        status = self._runner.stdout.readline()
        if not status:
            raise RuntimeError("the process that runs suites has ended")
        return int(status), output.read_text(errors="replace")

    @contextmanager
    def planted(self, edits: tuple[Edit, ...]) -> Iterator[None]:
        """Make the edits, and take them back.

        Raises:
            StaleEdit: the code is not as an edit expects it.
        """
        before = {edit.file: (self.directory / edit.file).read_text() for edit in edits}
        after = dict(before)
        for edit in edits:
            after[edit.file] = edit.apply(after[edit.file])
        try:
            self._write(after)
            yield
        finally:
            self._write(before)

    def _write(self, sources: dict[str, str]) -> None:
        for file, source in sources.items():
            path = self.directory / file
            path.write_text(source)
            # Bytecode is dated in seconds, and two edits may be of one second and one length.
            with suppress(FileNotFoundError):
                Path(cache_from_source(str(path))).unlink()
