"""Where there is no Chromium, its tests are skipped by name, or fail where they must run."""

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = "tests/pipeline/report/test_browser.py"
REASON = "no Chromium here: apt-get install --no-install-recommends chromium"


async def judged(nowhere: Path, *options: str) -> tuple[int | None, str]:
    """Run the tests that need a Chromium, on a PATH without one."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", TESTS, *options),
        cwd=ROOT,
        env={"PATH": str(nowhere), "HOME": str(nowhere)},
        stdout=PIPE,
        stderr=STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


@pytest.mark.slow
async def test_without_a_chromium_its_tests_are_skipped_and_the_summary_says_why(
    tmp_path: Path,
) -> None:
    code, output = await judged(tmp_path)
    assert code == pytest.ExitCode.OK, output
    lines = [line for line in output.splitlines() if line.startswith("SKIPPED")]
    assert lines, output
    for line in lines:
        assert TESTS in line
        assert line.endswith(REASON)
    assert " passed" not in output


async def test_where_a_chromium_is_required_they_fail_without_one(tmp_path: Path) -> None:
    code, output = await judged(tmp_path, "--require-chromium")
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert REASON in output
    assert "skipped" not in output.splitlines()[-1]


def test_the_judgement_on_a_checkout_requires_one() -> None:
    """With that option a skipped test fails the judgement."""
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    tests = [line for line in lines if line.startswith('"$venv/bin/pytest"')]
    assert tests
    assert all(" --require-chromium" in line for line in tests)
