"""The benchmark of an idle daemon rehearses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "footprint.py"


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
