"""The benchmark of planning beside the event loop rehearses."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "planning_lag.py"


def test_a_small_cluster_is_planned_while_the_loop_is_watched() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--json", "--bundles", "2000", "--brokers", "10"],
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stdout)
    assert found.keys() == {"timer_late_ms", "echo_ms", "cycle_s", "idle", "machine"}
    assert 0 < found["timer_late_ms"]["p50"] <= found["timer_late_ms"]["max"]
    assert 0 < found["echo_ms"]["p50"] <= found["echo_ms"]["max"]
