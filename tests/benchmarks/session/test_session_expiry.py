"""The benchmark of an expired session rehearses: its shape, and that the broker keeps all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "session_expiry.py"


@pytest.mark.slow
def test_a_rehearsal_has_every_figure() -> None:
    done = subprocess.run(
        [
            *(sys.executable, SCRIPT, "--json"),
            *("--bundles", "20", "--expiries", "2", "--kills", "1", "--failovers", "1"),
        ],
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found = json.loads(done.stdout)
    assert found.pop("bundles") == 20
    assert found.pop("ownership_changes") == 0
    assert 1 <= found.pop("peak_in_flight") <= 20
    reconnects = (found.pop(f"{role}_kill_reconnect_ms") for role in ("follower", "leader"))
    assert all(0 < each["p50"] <= each["p99"] for each in reconnects)
    assert found.pop("leader_failover_s")["p50"] > 0
    assert found.pop("machine")["cores"] >= 1
    assert found.keys() == {
        "reowned_s",
        "raw_transactions_s",
        "reowned_to_raw_ratio",
        "serial_baseline_s",
    }
    assert min(found.values()) > 0
