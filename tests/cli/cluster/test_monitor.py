"""``broker-ctl brokers monitor`` against a real ZooKeeper, with reports as Pulsar writes them."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from kazoo.client import KazooClient

from broker_ctl.cli import monitor
from broker_ctl.cli.main import main
from broker_ctl.store import paths
from tests.support.rules.json_units import out_of_system
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Proxy, Way

BUNDLE = "public/default/0x00000000_0x40000000"
LINE = {
    "msgRateIn": 100.5,
    "msgThroughputIn": 4000.0,
    "msgRateOut": 1.0,
    "msgThroughputOut": 1000.0,
    "consumerCount": 2,
    "producerCount": 1,
    "topics": 3,
    "cacheSize": 0,
}
USAGE = {
    "cpu": {"usage": 123.4, "limit": 800.0},
    "memory": {"usage": 1024.0, "limit": 2048.0},
    "directMemory": {"usage": 10.0, "limit": 4096.0},
    "bandwidthIn": {"usage": 1000.0, "limit": 1.0e7},
    "bandwidthOut": {"usage": 2000.0, "limit": 1.0e7},
}
MODULAR = USAGE | {
    "brokerId": "broker-1:8080",
    "lastUpdate": 1_795_191_680_056,
    "lastStats": {BUNDLE: LINE},
    "numBundles": 1,
    "bundles": [BUNDLE],
    "lastBundleGains": [BUNDLE],
    "loadReportType": "LocalBrokerData",
}
SIMPLE = {
    "name": "broker-2:8080",
    "timestamp": 0,
    "systemResourceUsage": USAGE,
    "bundleStats": {BUNDLE: LINE},
    "numBundles": 1,
    "bundleLosses": [BUNDLE],
    # Pulsar's slip: the rates once more.
    "msgThroughputIn": 100.5,
    "underLoaded": False,
    "loadReportType": "LoadReport",
}
EXTENSIBLE = {
    "webServiceUrl": "http://broker-3:8080",
    "loadManagerClassName": (
        "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    ),
    "brokerVersion": "4.0.0",
}
AVERAGE = {
    f"{term}TermMsg{measure}{way}": float(number)
    for number, (term, measure, way) in enumerate(
        (term, measure, way)
        for term in ("short", "long")
        for measure in ("Rate", "Throughput")
        for way in ("In", "Out")
    )
}


class Cluster:
    """What brokers have written below a chroot."""

    def __init__(self, client: KazooClient, chroot: str) -> None:
        self._client = client
        self._chroot = chroot

    def write(self, path: str, payload: Any) -> None:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        whole = self._chroot + path
        if self._client.exists(whole):
            self._client.set(whole, data)
        else:
            self._client.create(whole, data, makepath=True)

    def report(self, broker_id: str, payload: Any) -> None:
        self.write(paths.load_report(broker_id), payload)

    def everything(self, path: str = "") -> dict[str, Any]:
        """All nodes with what changes when one of them is written."""
        whole = self._chroot + path
        data, stat = self._client.get(whole)
        found = {path: (data, stat.mzxid, stat.pzxid, stat.cversion, stat.aversion)}
        for name in self._client.get_children(whole):
            found |= self.everything(f"{path}/{name}")
        return found


@pytest.fixture
def source(zookeeper: SharedEnsemble, chroot: str) -> str:
    return zookeeper.connect_string + chroot


@pytest.fixture
def cluster(zookeeper: SharedEnsemble, chroot: str) -> Iterator[Cluster]:
    client = KazooClient(zookeeper.connect_string)
    client.start()
    try:
        yield Cluster(client, chroot)
    finally:
        client.stop()
        client.close()


def run(source: str, *options: str) -> Result:
    return CliRunner().invoke(main, ["brokers", "monitor", "--zookeeper", source, *options])


def seen(source: str) -> Any:
    result = run(source, "--once", "--output", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert list(out_of_system(found)) == []
    return found


# What is shown.


def test_a_modular_report_is_shown_with_the_averages_that_the_leader_keeps(
    cluster: Cluster, source: str
) -> None:
    cluster.report("broker-1:8080", MODULAR)
    cluster.write(paths.broker_time_average("broker-1:8080"), AVERAGE)
    (row,) = seen(source)["brokers"]
    assert (row["broker"], row["manager"]) == ("broker-1:8080", "modular")
    assert row["usage_ratio"] == pytest.approx(
        {
            "cpu": 0.15425,
            "memory": 0.5,
            "direct_memory": 0.00244140625,
            "bandwidth_in": 0.0001,
            "bandwidth_out": 0.0002,
            # Without the heap.
            "max": 0.15425,
        }
    )
    assert (row["topics"], row["bundles"], row["producers"], row["consumers"]) == (3, 1, 1, 2)
    assert (row["bundles_gained"], row["bundles_lost"]) == (1, 0)
    names = ("in_msg_per_s", "out_msg_per_s", "in_bytes_per_s", "out_bytes_per_s")
    assert row["latest"] == dict(zip(names, (100.5, 1.0, 4000.0, 1000.0), strict=True))
    assert row["short_term"] == dict(zip(names, (0.0, 1.0, 2.0, 3.0), strict=True))
    assert row["long_term"] == dict(zip(names, (4.0, 5.0, 6.0, 7.0), strict=True))


def test_the_age_counts_from_the_last_update(cluster: Cluster, source: str) -> None:
    cluster.report("broker-1:8080", MODULAR | {"lastUpdate": 1000})
    cluster.report("broker-2:8080", MODULAR | {"lastUpdate": 2**47})
    cluster.report("broker-3:8080", MODULAR | {"lastUpdate": 0})
    found = seen(source)
    ages = [row["age_s"] for row in found["brokers"]]
    assert ages == [(found["at_ms"] - 1000) / 1000, 0.0, None]


def test_a_simple_report_is_shown_likewise(cluster: Cluster, source: str) -> None:
    cluster.report("broker-2:8080", SIMPLE)
    (row,) = seen(source)["brokers"]
    assert (row["manager"], row["short_term"], row["long_term"]) == ("simple", None, None)
    assert row["usage_ratio"]["cpu"] == pytest.approx(0.15425)
    assert row["latest"]["in_bytes_per_s"] == 4000.0
    assert (row["topics"], row["bundles_lost"]) == (3, 1)


def test_people_see_one_line_a_broker_and_one_table_each(cluster: Cluster, source: str) -> None:
    cluster.report("broker-1:8080", MODULAR)
    cluster.write(paths.broker_time_average("broker-1:8080"), AVERAGE)
    cluster.report("broker-2:8080", SIMPLE)
    cluster.report("broker-3:8080", EXTENSIBLE)
    result = run(source, "--once")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert f"brokers at {source}: 2" in result.stdout
    assert ["broker-2:8080", "no", "time", "15.4", "3", "1", "102", "4.9", "KiB/s"] in lines
    assert "broker-1:8080 (modular, " in result.stdout
    assert ["count", "topics", "bundles", "producers", "consumers", "gained", "lost"] in lines
    assert ["now", "3", "1", "1", "2", "1", "0"] in lines
    assert ["usage", "15.4", "50", "0.244", "0.01", "0.02", "15.4"] in lines
    assert ["latest", "100", "1", "102", "3.9", "KiB/s", "1000.0", "B/s", "4.9", "KiB/s"] in lines
    assert ["short", "0", "1", "1", "2.0", "B/s", "3.0", "B/s", "5.0", "B/s"] in lines
    assert ["long", "-", "-", "-", "-", "-", "-"] in lines
    assert "skipped: 1" in result.stdout


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(cluster: Cluster, source: str) -> None:
    cluster.report("broker-1:8080", MODULAR)
    cluster.write(paths.broker_time_average("broker-1:8080"), b"[]")
    cluster.report("broker-3:8080", EXTENSIBLE)
    cluster.report("broker-4:8080", b"\x00\xff")
    cluster.report("broker-5:8080", MODULAR | {"lastStats": {"\x1b[2J": {"topics": "x"}}})
    cluster.report("broker-6:8080", MODULAR | {"cpu": {"usage": "full", "limit": 1}})
    found = seen(source)
    (row,) = found["brokers"]
    assert (row["broker"], row["short_term"]) == ("broker-1:8080", None)
    reasons = {one["node"]: one["reason"] for one in found["skipped"]}
    assert list(reasons) == [
        "/loadbalance/broker-time-average/broker-1:8080",
        *(f"/loadbalance/brokers/broker-{number}:8080" for number in (3, 4, 5, 6)),
    ]
    reported = list(reasons.values())
    assert reported[0] == "a JSON object was expected, not list"
    assert reported[1] == "not a load report; written by ExtensibleLoadManagerImpl"
    assert reported[2].startswith("not JSON")
    assert reported[3] == "lastStats.?[2J.topics: cannot be a str"
    assert reported[4] == "cpu.usage: cannot be a str"


def test_nothing_is_written(cluster: Cluster, source: str) -> None:
    cluster.report("broker-1:8080", MODULAR)
    cluster.report("broker-4:8080", b"corrupt")
    before = cluster.everything()
    assert len(seen(source)["brokers"]) == 1
    assert cluster.everything() == before


# While it goes on.


@asynccontextmanager
async def monitoring(source: str, interval_s: float) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from broker_ctl.cli.main import main; main()"),
        *("brokers", "monitor", "--zookeeper", source, "--output", "json"),
        *("--interval", str(interval_s)),
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(60):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def next_brokers(process: Process) -> list[str]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    return [row["broker"] for row in json.loads(line)["brokers"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_changes_are_shown_at_once_until_it_is_interrupted(
    cluster: Cluster, source: str, number: signal.Signals
) -> None:
    cluster.report("broker-1:8080", MODULAR)
    async with monitoring(source, interval_s=3600) as process:
        assert await next_brokers(process) == ["broker-1:8080"]
        cluster.report("broker-2:8080", SIMPLE)
        assert await next_brokers(process) == ["broker-1:8080", "broker-2:8080"]
        cluster.report("broker-1:8080", b"corrupt")
        assert await next_brokers(process) == ["broker-2:8080"]
        process.send_signal(number)
        _, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")


async def test_without_changes_it_is_shown_at_each_interval(cluster: Cluster, source: str) -> None:
    cluster.report("broker-1:8080", MODULAR)
    async with monitoring(source, interval_s=0.5) as process:
        for _ in range(3):
            assert await next_brokers(process) == ["broker-1:8080"]


async def test_a_lost_connection_is_reported_and_waited_for(
    cluster: Cluster, zookeeper: SharedEnsemble, chroot: str
) -> None:
    cluster.report("broker-1:8080", MODULAR)
    async with (
        Proxy.to(zookeeper.servers[0].client_port) as proxy,
        monitoring(proxy.address + chroot, 3600) as process,
    ):
        assert process.stderr is not None
        assert await next_brokers(process) == ["broker-1:8080"]
        proxy.way = Way.REFUSED
        proxy.cut()
        assert b"lost; reconnecting" in await process.stderr.readline()
        cluster.report("broker-2:8080", SIMPLE)
        proxy.way = Way.OPEN
        assert b"reconnected" in await process.stderr.readline()
        assert await next_brokers(process) == ["broker-1:8080", "broker-2:8080"]
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0


# What goes wrong.


def test_a_missing_node_of_reports_is_reported(source: str) -> None:
    result = run(source, "--once")
    assert result.exit_code == 1
    assert f"{source} has no /loadbalance/brokers; check the chroot" in result.stderr


def test_a_cluster_without_brokers_is_not_an_error(cluster: Cluster, source: str) -> None:
    cluster.write(paths.LOAD_REPORTS, b"")
    result = run(source, "--once")
    assert result.exit_code == 0
    assert f"no usable load report at {source}" in result.stdout


def test_nobody_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "_CONNECT_S", 0.2)
    result = run("127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: no ZooKeeper server at 127.0.0.1:1 answered within 0.2 s: check --zookeeper\n"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        ["--zookeeper", "zk1:99999"],
        ["--zookeeper", "etcd:zk"],
        ["--zookeeper", "zk/../x"],
        ["--zookeeper", "zk", "--interval", "0"],
        ["--once"],
    ],
)
def test_a_wrong_option_is_rejected(wrong: list[str]) -> None:
    assert CliRunner().invoke(main, ["brokers", "monitor", *wrong]).exit_code == 2


def test_an_empty_file_of_credentials_is_rejected(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    result = run("127.0.0.1:1", "--once", "--auth-digest-file", str(empty))
    assert result.exit_code == 1
    assert "the file is empty" in result.stderr


def test_help_shows_an_example() -> None:
    result = CliRunner().invoke(main, ["brokers", "monitor", "--help"])
    assert result.exit_code == 0
    assert "broker-ctl brokers monitor --zookeeper" in result.stdout.partition("Example")[2]
