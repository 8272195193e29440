"""What benchmarks say of the machine beside their figures."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import psutil
import pytest

from tests.benchmarks.machine.idle_loop import quantiles, runnable_of
from tests.benchmarks.machine.load import CpuTimes, busy_s, shares, with_machine_load
from tests.support.time.waiting import PATIENCE_S

TICKS_S = 100
# user nice system idle iowait irq softirq steal guest guest_nice
STAT = "cpu  100 200 300 9000 5000 10 20 70 50 60\ncpu0 1 1 1 1 1 1 1 1 1 1\n"


def test_idle_cores_and_time_in_guests_that_is_counted_twice_are_not_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sysconf", lambda _: TICKS_S)
    assert busy_s(STAT) == (100 + 200 + 300 + 10 + 20 + 70) / TICKS_S


def test_what_the_benchmark_used_itself_is_not_of_others() -> None:
    before, after = CpuTimes(10.0, 500.0, 3.0), CpuTimes(20.0, 516.0, 14.0)
    assert shares(before, after) == {"busy_cores": 1.6, "others_cores": 0.5}


def test_the_reader_does_not_count_itself_as_waiting() -> None:
    assert runnable_of("0.20 0.18 0.12 4/80 11206\n") == 3
    assert runnable_of("0.20 0.18 0.12 1/80 11206\n") == 0


def test_quantiles_are_values_that_were_seen() -> None:
    assert quantiles([float(number) for number in range(101)]) == {
        "p50": 50.0,
        "p99": 99.0,
        "max": 100.0,
    }


def test_a_benchmark_that_keeps_a_core_busy_is_seen_in_the_run_queue() -> None:
    def measure() -> Mapping[str, Any]:
        spin = "import time\nwhile time.process_time() < 0.3: pass"
        subprocess.run([sys.executable, "-I", "-S", "-c", spin], check=True, timeout=PATIENCE_S)
        return {"figure": 1}

    found = with_machine_load(measure)
    assert found["figure"] == 1
    machine = found["machine"]
    assert machine["run_queue"]["p50"] >= 1
    assert machine["busy_cores"] > machine["others_cores"]
    assert machine["idle_loop_lag_ms"]["p50"] <= machine["idle_loop_lag_ms"]["max"]


def test_the_process_beside_a_benchmark_that_fails_ends_with_it() -> None:
    def fail() -> Mapping[str, Any]:
        raise ZeroDivisionError

    before = psutil.Process().children()
    with pytest.raises(ZeroDivisionError):
        with_machine_load(fail)
    assert psutil.Process().children() == before
