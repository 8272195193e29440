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
    assert found.keys() == {"timer_late_ms", "echo_ms", "cycle_s", "cycle_cpu_s", "idle", "machine"}
    assert 0 < found["timer_late_ms"]["p50"] <= found["timer_late_ms"]["max"]
    assert 0 < found["echo_ms"]["p50"] <= found["echo_ms"]["max"]


def test_a_plan_keeps_every_constraint() -> None:
    options = ("--constraints", "--json", "--bundles", "5000", "--brokers", "40")
    done = subprocess.run(
        [sys.executable, SCRIPT, *options], stdout=subprocess.PIPE, check=True, timeout=120
    )
    found = json.loads(done.stdout)
    assert found["broken"]["limits"][0] > 0 < found["broken"]["topic_caps"][0]
    assert [after for _, after in found["broken"].values()] == [0, 0, 0]
    assert found["max_over_mean"][0] > found["max_over_mean"][1]
    assert 0 < found["plan_s"]["median"] <= found["plan_s"]["max"]
