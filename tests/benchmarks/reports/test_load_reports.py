"""What the benchmark of load reports makes of what it has read; and a rehearsal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.reports.leader import lag_figures

SCRIPT = Path(__file__).parents[1] / "load_reports.py"
BEFORE = {1.0: 10.0, 5.0: 20.0, 20.0: 20.0, 50.0: 21.0, float("inf"): 21.0}


def after(*counts: int) -> dict[float, float]:
    return {
        bound: BEFORE[bound] + sum(counts[: index + 1])
        for index, bound in enumerate(sorted(BEFORE))
    }


@pytest.mark.parametrize(
    ("counts", "p50", "p99", "most"),
    [
        ((100, 0, 0, 0, 0), 0.5, 0.99, 1.0),
        ((50, 49, 1, 0, 0), 1.0, 5.0, 20.0),
        ((0, 98, 0, 2, 0), 3.04, 35.0, 50.0),
        ((0, 0, 0, 0, 4), 50.0, 50.0, float("inf")),
    ],
)
def test_lag_is_that_of_the_time_in_between(
    counts: tuple[int, ...], p50: float, p99: float, most: float
) -> None:
    assert lag_figures(BEFORE, after(*counts)) == {"p50": p50, "p99": p99, "max": most}


@pytest.mark.slow
def test_a_rehearsal_counts_reports_heartbeats_and_cycles() -> None:
    done = subprocess.run(
        # Long enough for a cycle, of which one begins every ten seconds.
        [
            *(sys.executable, SCRIPT, "--json"),
            *("--bundles", "200", "--brokers", "2", "--seconds", "12"),
        ],
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)
    assert (found["bundles"], found["brokers"], found["reports_failed"]) == (200, 2, 0)
    assert all(found[name] > 0 for name in ("reports", "report_bytes", "heartbeats", "cycles"))
    for lag in (found["loop_lag_ms"], found["idle_loop_lag_ms"]):
        assert 0 < lag["p50"] <= lag["p99"] <= lag["max"]
    assert found["cycle_s"]["max"] > 0
    assert 10 < found["rss_mb"] < 500
