"""A real Prometheus with series of a Pulsar cluster, of which a history is made."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.core.history.rows import BundleLoadRow
from broker_ctl.core.model.names import Namespace, Ring, Topic
from broker_ctl.errors import HttpError, PipelineError
from broker_ctl.http_client import HttpClient
from broker_ctl.pipeline.importing.job import Imported, ImportRules, import_hours
from broker_ctl.pipeline.importing.series import Prometheus, SeriesSource
from tests.support.http.web_server import free_port
from tests.support.pipeline.history_files import lines, segment_paths
from tests.support.pipeline.segment_files import DAY_ONE_MS, HOUR_MS
from tests.support.time.waiting import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="no prometheus: apt install prometheus"
    ),
]
MINUTE_MS = 60_000
RING = Ring.even(Namespace("t", "n"), 4)
# What a topic has is its number plus one in messages, and a thousandfold in bytes.
TOPICS = [f"persistent://t/n/topic-{number}" for number in range(6)]


def topic_samples() -> Iterator[tuple[str, float]]:
    for number, topic in enumerate(TOPICS, 1):
        broker = f"b{RING.bundles.index(RING.bundle_of(Topic.parse(topic))) % 2}"
        labels = f'cluster="east",instance="{broker}",namespace="t/n",topic="{topic}"'
        for name in ("pulsar_rate_in", "pulsar_rate_out"):
            yield f"{name}{{{labels}}}", number
        for name in ("pulsar_throughput_in", "pulsar_throughput_out"):
            yield f"{name}{{{labels}}}", number * 1000
        yield f"pulsar_producers_count{{{labels}}}", 1


def bundle_samples() -> Iterator[tuple[str, float]]:
    for number, bundle in enumerate(RING.bundles, 1):
        labels = f'cluster="west",broker="b{number % 2}",bundle="{bundle}",metric="bundle"'
        yield f"pulsar_bundle_msg_rate_in{{{labels}}}", number
        yield f"pulsar_bundle_msg_throughput_in{{{labels}}}", number * 1000
        yield f"pulsar_bundle_topics_count{{{labels}}}", 3
    yield 'pulsar_lb_cpu_usage{cluster="west",broker="b0",metric="loadBalancing"}', 25
    yield 'pulsar_lb_cpu_usage{cluster="west",broker="b1",metric="loadBalancing"}', 75


def backfill(directory: Path, storage: Path) -> None:
    """Two hours of both clusters as blocks of Prometheus."""
    text = directory / "series.txt"
    with text.open("w") as out:
        known = ""
        for series, value in sorted((*topic_samples(), *bundle_samples())):
            name = series.partition("{")[0]
            if name != known:
                out.write(f"# TYPE {name} gauge\n")
            known = name
            for minute in range(2 * 60):
                out.write(f"{series} {value} {(DAY_ONE_MS + minute * MINUTE_MS) // 1000}\n")
        out.write("# EOF\n")
    done = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, storage],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[str]:
    """The URL of a Prometheus with these series."""
    storage, config = directory / "storage", directory / "prometheus.yml"
    backfill(directory, storage)
    config.write_text("scrape_configs: []\n")
    address = f"127.0.0.1:{free_port()}"
    url = f"http://{address}"
    process = subprocess.Popen(  # noqa: ASYNC220  it outlives the call
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={storage}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={address}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with HttpClient(timeout_s=30, max_body_bytes=1 << 20) as client:

            async def is_ready() -> bool:
                try:
                    return (await client.request("GET", f"{url}/-/ready")).status == 200
                except HttpError:
                    return False

            await eventually(is_ready, deadline_s=120)
            yield url
    finally:
        process.kill()
        process.wait()


async def imported(url: str, cluster: str, history: Path) -> list[Imported]:
    rules = ImportRules(DAY_ONE_MS, DAY_ONE_MS + 2 * HOUR_MS, MINUTE_MS, cluster, 0.5, bundles=4)
    async with HttpClient(timeout_s=60, max_body_bytes=1 << 24) as client:
        prometheus = Prometheus(client, SeriesSource(url, cluster))
        return [each async for each in import_hours(prometheus, history, rules)]


def run(url: str, history: Path, cluster: str, *more: str) -> subprocess.CompletedProcess[str]:
    """The command, for the hours that were recorded."""
    verb = [sys.executable, "-m", "broker_ctl", "pipeline", "import", "prometheus", url]
    hours = ["--since", "2026-01-01T00:00Z", "--until", "2026-01-01T02:00Z"]
    return subprocess.run(
        [*verb, str(history), "--cluster", cluster, *hours, *more],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )


def loads(history: Path) -> list[tuple[int, BundleLoadRow]]:
    return [
        (line.stamp.at_ms, row)
        for line in lines(history)
        if line.stamp.kind == "bundle_loads"
        for row in line.rows
    ]


async def test_series_of_a_real_prometheus_become_a_history(tmp_path: Path) -> None:
    async with running(tmp_path) as url:
        east, west = tmp_path / "east", tmp_path / "west"
        # Topics are added up by bundle.
        first, second = await imported(url, "east", east)
        assert (first.cycles, second.cycles) == (60, 60)
        expected: dict[str, list[float]] = {}
        for number, topic in enumerate(TOPICS, 1):
            bundle = str(RING.bundle_of(Topic.parse(topic)))
            values = expected.setdefault(bundle, [0.0, 0.0, 0.0])
            for place, value in enumerate((number, number * 1000, 1)):
                values[place] += value
        found = loads(east)
        measured = {row.bundle: [row.msg_rate_in, row.bytes_out, row.topics] for _, row in found}
        assert measured == expected
        assert len(found) == 120 * len(expected)

        # Bundles were recorded, and the processors of the brokers.
        await imported(url, "west", west)
        by_bundle: dict[str, Any] = {row.bundle: row for _, row in loads(west)}
        rates = [by_bundle[str(bundle)].msg_rate_in for bundle in RING.bundles]
        assert rates == [1.0, 2.0, 3.0, 4.0]
        assert [by_bundle[str(bundle)].owner for bundle in RING.bundles] == ["b1", "b0", "b1", "b0"]
        assert by_bundle[str(RING.bundles[0])].usage_ratio == pytest.approx(0.75 / 4)

        # An hour that is imported again replaces itself.
        before = {path: path.read_bytes() for path in segment_paths(west)}
        await imported(url, "west", west)
        assert {path: path.read_bytes() for path in segment_paths(west)} == before

        # So does the command.
        answered = await asyncio.to_thread(run, url, tmp_path / "again", "west", "--output", "json")
        assert answered.returncode == 0, answered.stderr
        assert json.loads(answered.stdout) == {
            "hours": 2, "empty_hours": 0, "cycles": 120, "segments": 2, "rows": 2 * 60 * 6 + 2 * 3,
        }  # fmt: skip
        again = {path.name: path.read_bytes() for path in segment_paths(tmp_path / "again")}
        assert again == {path.name: data for path, data in before.items()}
        nothing = await asyncio.to_thread(run, url, tmp_path / "none", "nowhere")
        assert nothing.returncode == 1
        assert "has no Pulsar metrics of cluster nowhere" in nothing.stderr

        (empty, _) = await imported(url, "nowhere", tmp_path / "nowhere")
        assert (empty.cycles, empty.segments) == (0, 0)
        with pytest.raises(PipelineError, match="not a Prometheus: the reply with status 404"):
            await imported(f"{url}/elsewhere", "west", tmp_path / "bad")


async def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HttpError, match=r"GET http:"):
        await imported(f"http://127.0.0.1:{free_port()}", "east", tmp_path)
