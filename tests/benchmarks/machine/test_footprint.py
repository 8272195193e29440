"""The benchmarks of an idle daemon and of open consoles rehearse."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "footprint.py"


@pytest.mark.slow
def test_a_rehearsal_has_both_figures() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", "--runs", "1", "--idle", "0.1"],
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)
    assert found.keys() == {"rss_mb", "ready_s", "machine"}
    assert 10 < found["rss_mb"] < 500
    assert 0 < found["ready_s"] < 60


@pytest.mark.slow
def test_a_rehearsal_of_consoles_receives_updates() -> None:
    done = subprocess.run(
        (
            *(sys.executable, SCRIPT.with_name("console.py"), "--json"),
            *("--consoles", "2", "--brokers", "2", "--seconds", "2"),
        ),
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)
    assert found["updates_per_s"] >= 1
    assert {"timer_late_ms", "idle", "added_p99_ms", "machine"} <= found.keys()
