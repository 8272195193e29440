"""The benchmark of the metadata store rehearses: its shape, and that it counts what was done."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.time.waiting import eventually

SCRIPT = Path(__file__).parents[1] / "metadata_store.py"
STORM = {
    "queue_wait_p99_ms",
    "bulk_queue_wait_p99_ms",
    "interactive_get_p99_ms",
    "control_p99_ms",
    "loop_lag_p99_ms",
    "topics_s",
    "bystander_get_p99_ms",
    "bystander_set_p99_ms",
}


@pytest.fixture(scope="module")
def rehearsal() -> dict[str, Any]:
    return rehearsed("throughput", "latency", "storm")


def rehearsed(*parts: str) -> dict[str, Any]:
    # Each client fails where the servers have counted something else than it was to do.
    only = [word for part in parts for word in ("--only", part)]
    done = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--json", "--heap", "128m", *only],
        stdout=subprocess.PIPE,
        check=True,
        timeout=500,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_a_rehearsal_is_marked_as_one(rehearsal: dict[str, Any]) -> None:
    assert rehearsal["is_quick"] is True


@pytest.mark.slow
def test_every_client_has_a_throughput_of_every_kind(rehearsal: dict[str, Any]) -> None:
    found = rehearsal["throughput_ops_s"]
    assert set(found) == {"get", "set", "create"}
    for clients in found.values():
        assert set(clients) == {"store", "raw", "aiozk", "kazoo"}
        assert all(rate > 0 for rate in clients.values())


@pytest.mark.slow
def test_store_and_direct_are_asked_alike_at_every_rate(rehearsal: dict[str, Any]) -> None:
    found = rehearsal["latency_ms"]
    assert list(found) == ["5", "100", "1000", "5000"]
    for quantiles in found.values():
        for client in ("store", "direct"):
            assert 0 < quantiles[f"{client}_p50"] <= quantiles[f"{client}_p99"]
        assert quantiles["store_count"] == quantiles["direct_count"] > 0


@pytest.mark.slow
def test_what_the_store_adds_is_the_difference_of_the_medians(rehearsal: dict[str, Any]) -> None:
    for rate, added_ms in rehearsal["added_p50_ms"].items():
        found = rehearsal["latency_ms"][rate]
        assert added_ms == pytest.approx(found["store_p50"] - found["direct_p50"], abs=0.001)


@pytest.mark.slow
def test_identity_access_control_and_tls_stand_beside_the_plain_store() -> None:
    found = rehearsed("secured")["secured"]
    ways = {"plain", "sasl", "tls", "tls_sasl"}
    assert set(found["ops_s"]["set"]) == ways
    assert set(found["ops_s"]["get"]) == ways | {"raw_plain", "raw_tls"}
    assert all(rate > 0 for of_kind in found["ops_s"].values() for rate in of_kind.values())
    assert set(found["ratio"]["get"]) == set(found["ratio"]["set"]) == ways - {"plain"}
    assert found["raw_tls_ratio"] > 0


@pytest.mark.slow
def test_the_storm_has_the_figures_of_both_models(rehearsal: dict[str, Any]) -> None:
    found = rehearsal["storm"]
    assert found["topics"] == 200
    assert found["topics_s_unbounded"] > 0
    crowd = found["crowd"]
    assert crowd["at_once"] == 100
    for figures in (found, found["old_model"], crowd, crowd["old_model"]):
        assert set(figures) >= STORM
        assert all(figures[name] > 0 for name in STORM)


async def test_an_interrupted_benchmark_leaves_nothing_behind(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, SCRIPT, "--quick", "--only", "latency", "--heap", "128m"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    try:
        seen = psutil.Process(process.pid)

        def measures() -> list[psutil.Process] | None:
            children = seen.children(recursive=True)
            return children if len(children) == 4 else None

        started = await eventually(measures, what="three servers and a client run")
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            await process.wait()
    assert not [one for one in started if one.is_running()]
    assert not await asyncio.to_thread(os.listdir, tmp_path)
