"""A failure shows how the logs of the servers end that wrote while the test ran."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.server_logs import last_lines

ROOT: Final = Path(__file__).parents[1]
FAILING: Final = """
def test_with_a_server(tmp_path):
    (tmp_path / "daemon.log").write_text("".join(f"line {number}\\n" for number in range(40)))
    assert False
"""


def test_the_newest_files_end_with_their_last_lines(tmp_path: Path) -> None:
    for number in range(8):
        log = tmp_path / f"{number}.log"
        log.write_text("".join(f"{number}-{line}\n" for line in range(20)))
        os.utime(log, (1000 + number, 1000 + number))
    (tmp_path / "data.txt").write_text("none")
    found = dict(last_lines(tmp_path, 1001))
    assert list(found) == [f"{number}.log" for number in range(2, 8)]
    assert found["7.log"].splitlines() == [f"7-{line}" for line in range(5, 20)]
    assert list(last_lines(tmp_path, 2000)) == []


def test_a_long_log_is_read_from_its_end_and_any_bytes_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * 100_000 + b"\nlast \xff\n")
    [(_, lines)] = last_lines(tmp_path, 0)
    assert len(lines) < 10_000
    assert lines.endswith("\nlast \ufffd")


def test_a_run_shows_them_and_says_what_it_left_out(tmp_path: Path) -> None:
    failing = tmp_path / "test_failing.py"
    failing.write_text(FAILING)
    arguments = ("-c", ROOT / "pyproject.toml", "-p", "tests.conftest", "-n", "0")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "-p", "no:cacheprovider", failing],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout
    assert "daemon.log" in ran.stdout
    assert "line 39\n" in ran.stdout
    assert "line 24\n" not in ran.stdout
    assert "`pytest -m slow`" in ran.stdout
    assert "tests/pipeline/open_tables/run" in ran.stdout
