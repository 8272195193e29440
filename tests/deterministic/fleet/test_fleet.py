"""A small fleet: whole daemons through a short day; `--daemons 1000` runs a large one."""

import json
import os
import subprocess
import sys

import pytest

DAEMONS = 6
BUNDLES = 120
FAULTS = ["restarts", "deaths", "leader dies", "zone lost", "ensemble restarts"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_fleet_breaks_no_invariant_and_is_measured() -> None:
    command = [sys.executable, "-m", "tests.deterministic", "--json", "--daemons", str(DAEMONS)]
    command += ["--bundles", str(BUNDLES), "--hours", "0.02"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    row = json.loads(done.stdout)
    assert row["violations"] == []
    parts = {part["part"]: part for part in row["parts"]}
    assert [part for part in parts if part != "quiet"] == ["start", *FAULTS]
    assert parts["zone lost"]["daemons"] == DAEMONS // 3
    assert row["acts"] >= parts["start"]["acquisitions"] > 0
    assert parts["ensemble restarts"]["moved_by_it"] == 0
    assert all(part["cpu_ms_a_minute"]["all"] > 0 for part in parts.values())
    quiet = [part for part in row["parts"] if part["part"] == "quiet"]
    assert all(part["watches"] >= DAEMONS for part in quiet)
    # Each daemon writes a heartbeat every three seconds, and asks for little else.
    assert 0 < min(part["a_second"]["requests"] for part in quiet) < 2 * DAEMONS
