"""The history that `broker-ctl attach` records of a real cluster is complete."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipeline.duckdb_oracle import answered
from tests.support.pulsar.attached import attached
from tests.support.pulsar.checks import ring_of
from tests.support.pulsar.cluster import PulsarCluster
from tests.support.pulsar.files import CLUSTER
from tests.support.pulsar.load import load
from tests.support.pulsar.skew import flows, gather_at, wait_reported
from tests.support.pulsar.snapshot import all_nodes
from tests.support.time.waiting import eventually

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(900)]

NAMESPACE = "public/recorded"
PER_SECOND = 240.0
TOPICS = 24
LONGEST_S = 600.0
# Three whole minutes, and what is cut off at both ends.
RECORDED_MS = 200_000
NEARLY = 0.8


async def pipeline(directory: Path, *words: str) -> Any:
    """The JSON output of a verb."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker_ctl", "pipeline", *words, "--output", "json"),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    return json.loads(out)


async def test_the_pipeline_works_on_what_was_recorded_of_a_real_cluster(
    cluster: PulsarCluster, figures: dict[str, Any], tmp_path: Path
) -> None:
    await cluster.make_namespace(NAMESPACE, 8)
    chosen = flows(NAMESPACE, TOPICS, PER_SECOND, 1000)
    async with load(tmp_path, cluster.service_url, chosen, LONGEST_S) as running:
        await gather_at(cluster, NAMESPACE, cluster.brokers[0])
        await wait_reported(cluster, TOPICS, PER_SECOND)
        history = str(tmp_path / "history")
        async with attached(cluster, tmp_path, "--act", "--history", history) as beside:

            def is_long_enough() -> bool:
                shown = beside.pictures()
                return bool(shown) and shown[-1]["at_ms"] - shown[0]["at_ms"] > RECORDED_MS

            await eventually(is_long_enough, LONGEST_S, "it has looked long enough", poll_s=1.0)
            await eventually(beside.is_resting, LONGEST_S, "all that was begun has ended")
            moved = [row for row in beside.decided("transfer") if row["result"] == "done"]
            await beside.end()
        ring = ring_of(all_nodes(cluster.zookeeper, ["/admin"]), NAMESPACE)
        await running.end()

    taken = await pipeline(tmp_path, "ingest", "history", "--tables", "tables", "--check")
    assert (taken["faulty_lines"], taken["unreadable"]) == (0, 0)
    await pipeline(tmp_path, "profile", "tables", "--to", "profiles")
    where = f"FROM '{tmp_path}/tables/{{}}/**/*.parquet' WHERE cluster = '{CLUSTER}'"
    brokers = answered(f"SELECT DISTINCT broker {where.format('broker_loads')} ORDER BY broker")
    assert [row[0] for row in brokers] == sorted(broker.id for broker in cluster.brokers)
    of_ours = f"bundle LIKE '{NAMESPACE}/%'"
    loads = answered(
        f"SELECT bundle, median(msg_rate_in) {where.format('bundle_loads')} AND {of_ours}"
        " GROUP BY bundle"
    )
    assert {row[0] for row in loads} == {str(bundle) for bundle in ring.bundles}
    sent = sum(row[1] for row in loads)
    assert NEARLY * PER_SECOND < sent < PER_SECOND / NEARLY
    recorded = answered(
        f"SELECT bundle, source, destination {where.format('decisions')}"
        f" AND {of_ours} AND decision = 'transfer' AND result = 'done'"
    )
    shown = [
        (row["bundle"], row["source"], row["destination"])
        for row in moved
        if row["bundle"].startswith(f"{NAMESPACE}/")
    ]
    assert sorted(recorded) == sorted(shown)
    assert shown

    policies = ("--policy", "balance", "--policy", "threshold", "--seeds", "2")
    backtest = await pipeline(
        tmp_path, "backtest", "--tables", "tables", "--to", "backtest", *policies
    )
    replays = {(row["trace"], row["policy"], row["seed"]) for row in backtest["replays"]}
    assert replays == {
        (f"cluster:{CLUSTER}", policy, seed)
        for policy in ("balance", "threshold")
        for seed in (0, 1)
    }
    minutes = min(row["minutes"] for row in backtest["replays"])
    assert minutes >= RECORDED_MS // 60_000
    page = ("--tables", "tables", "--backtest", "backtest", "--to", "report.html")
    await pipeline(tmp_path, "report", "profiles", *page)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(broker.id in text for broker in cluster.brokers)
    figures["recorded"] = {
        "rows": sum(each["rows"] for each in taken["tables"]),
        "minutes_replayed": minutes,
        "transfers": len(shown),
        "report_bytes": len(text),
    }
