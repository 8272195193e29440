"""The exposition of metrics, as a scraper reads it."""

from dataclasses import replace
from typing import Final

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker_ctl.api.metrics import exposition
from broker_ctl.api.metrics.exposition import InstrumentCollector
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.load import BundleStats
from broker_ctl.http_client import HttpClient
from broker_ctl.instruments.declared import Instruments, exposed_names
from broker_ctl.instruments.kinds import Counter, Gauge, Histogram, Summary
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, Broker, Held, MemoryReporter
from tests.support.time.waiting import eventually

TRAFFIC: Final = {
    "pulsar_bundle_msg_rate_in": 1.5,
    "pulsar_bundle_msg_rate_out": 2.5,
    "pulsar_bundle_topics_count": 7,
    "pulsar_bundle_consumer_count": 3,
    "pulsar_bundle_producer_count": 5,
    "pulsar_bundle_msg_throughput_in": 1000,
    "pulsar_bundle_msg_throughput_out": 2000,
}


@pytest.fixture(autouse=True)
def always_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scrape reads the values, also within the second that scrapes share."""
    monkeypatch.setattr(exposition, "_MAX_AGE_S", 0.0)


class Scrape:
    """Samples by name and labels; every one carries the cluster."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.names = {one.name for family in self.families.values() for one in family.samples}

    def value(self, name: str, **labels: str) -> float:
        wanted = {"cluster": CLUSTER, **labels}
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and sample.labels == wanted
        ]
        assert len(found) == 1, (name, labels, found)
        return float(found[0])


async def scrape(http: HttpClient, broker: Broker) -> Scrape:
    reply = await http.request("GET", f"{broker.url}/metrics")
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("text/plain; version=")
    return Scrape(reply.body.decode())


async def test_a_broker_shows_itself(http: HttpClient, leader: Broker) -> None:
    leader.world.assign(BUNDLES[0], leader.broker_id)
    seen = await scrape(http, leader)
    assert seen.value("broker_ctl_owned_bundles", state="owned") == 1
    assert seen.value("broker_ctl_owned_bundles", state="releasing") == 0
    assert seen.value("broker_ctl_session_state", state="connected") == 1
    assert seen.value("broker_ctl_session_state", state="lost") == 0
    assert seen.value("broker_ctl_session_epoch") == 3
    assert seen.value("broker_ctl_lease_remaining_seconds") == 1.5
    assert seen.value("broker_ctl_is_leader", seat="loadbalance") == 1
    assert seen.value("broker_ctl_brokers") == 2
    assert seen.value("broker_ctl_ready") == 1
    assert seen.value("broker_ctl_draining") == 0
    lb = {"broker": leader.broker_id, "metric": "loadBalancing"}
    assert seen.value("pulsar_lb_cpu_usage", **lb) == 75
    assert seen.value("pulsar_lb_memory_usage", **lb) == 10
    # CPU and memory are at 75 % and 10 %; memory has no weight by default.
    assert seen.value("pulsar_lb_resource_usage", feature="max", **lb) == 0.75


async def test_bundles_that_are_being_taken_are_pending_loads(
    http: HttpClient, leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = "pulsar_broker_topic_load_pending_requests"
    leader.world.assign(BUNDLES[0], leader.broker_id)
    assert (await scrape(http, leader)).value(loads) == 0
    states = (BundleState.ASSIGNING, BundleState.ASSIGNING, BundleState.OWNED)
    held = {bundle: Held(bundle, state, 7) for bundle, state in zip(BUNDLES, states, strict=False)}
    monkeypatch.setattr(leader.ownership, "owned", lambda: held)
    assert (await scrape(http, leader)).value(loads) == 2


async def test_the_traffic_of_bundles_is_exposed_once_that_is_configured(
    http: HttpClient, leader: Broker
) -> None:
    bundle = str(BUNDLES[0])
    line = BundleStats(1.5, 2.5, 1000.0, 2000.0, topics=7, producers=5, consumers=3)
    reporter = leader.dependencies.services.reporter
    assert isinstance(reporter, MemoryReporter)
    report = reporter.report
    reporter.report = replace(report, load=replace(report.load, bundles={bundle: line}))
    seen = await scrape(http, leader)
    assert not [name for name in seen.names if name.startswith("pulsar_bundle_")]
    await leader.metadata.configuration.set("exposeBundlesMetricsInPrometheus", "true")

    async def is_shown() -> bool:
        return "pulsar_bundle_topics_count" in (await scrape(http, leader)).names

    await eventually(is_shown)
    seen = await scrape(http, leader)
    labels = {"broker": leader.broker_id, "bundle": bundle, "metric": "bundle"}
    shown = {name: seen.value(name, **labels) for name in TRAFFIC}
    assert shown == TRAFFIC


async def test_lookups_are_exposed_as_pulsar_does(http: HttpClient, leader: Broker) -> None:
    seen = await scrape(http, leader)
    assert seen.value("pulsar_broker_lookup_answers_total") == 7
    assert seen.value("pulsar_broker_lookup_redirects_total") == 5
    assert seen.value("pulsar_broker_lookup_failures_total") == 3
    assert seen.value("pulsar_broker_lookup_pending_requests") == 2
    assert seen.value("pulsar_broker_lookup", quantile="0.5") == 2
    assert seen.value("pulsar_broker_lookup", quantile="1.0") == 3
    assert seen.value("pulsar_broker_lookup_count") == 15
    assert seen.families["pulsar_broker_lookup"].type == "summary"


async def test_decisions_are_counted_by_what_why_and_outcome(
    http: HttpClient, leader: Broker
) -> None:
    leader.journal.counted = {
        ("transfer", "overloaded", "done"): 4,
        ("transfer", "drain", "done"): 2,
        ("transfer", "overloaded", "failed"): 1,
        ("split", "topics", "done"): 3,
    }
    seen = await scrape(http, leader)
    labels = {"kind": "transfer", "reason": "overloaded", "result": "failed"}
    assert seen.value("broker_ctl_decisions_total", **labels) == 1
    assert seen.value("pulsar_lb_unload_bundle_total", metric="bundleUnloading") == 6
    assert seen.value("pulsar_lb_bundles_split_total", metric="bundlesSplit") == 3
    moves = {"metric": "bundleUnloading"}
    broken_down = "pulsar_lb_unload_broker_breakdown_total"
    assert seen.value(broken_down, result="Success", reason="Overloaded", **moves) == 4
    assert seen.value(broken_down, result="Success", reason="Admin", **moves) == 2
    assert seen.value(broken_down, result="Failure", reason="Unknown", **moves) == 1
    splits = {"metric": "bundlesSplit", "result": "Success", "reason": "Topics"}
    assert seen.value("pulsar_lb_bundles_split_breakdown_total", **splits) == 3


async def test_requests_and_orders_are_counted_by_pattern(http: HttpClient, leader: Broker) -> None:
    await http.request("GET", f"{leader.url}/admin/v2/namespaces/t/ns/bundles")
    await http.request("GET", f"{leader.url}/admin/v2/namespaces/t/unknown/bundles")
    for number in range(3):
        await http.request("GET", f"{leader.url}/nowhere/{number}")
    row = {"epoch": 1, "bundle": str(BUNDLES[0])}
    await http.request("POST", f"{leader.url}/control/v1/acquire", json=row)
    seen = await scrape(http, leader)
    counted = "broker_ctl_http_requests_total"
    route = "/admin/v2/namespaces/{tenant}/{namespace}/bundles"
    assert seen.value(counted, route=route, method="GET", status="200") == 1
    assert seen.value(counted, route=route, method="GET", status="404") == 1
    assert seen.value(counted, route="unknown", method="unknown", status="404") == 3
    assert seen.value("broker_ctl_commands_total", verb="acquire", result="done") == 1
    # The scrape itself is in progress.
    assert seen.value("broker_ctl_http_requests_in_flight", lane="probes") == 1


async def test_refused_requests_share_a_series_whatever_route_they_name(
    http: HttpClient, leader: Broker
) -> None:
    paths = ("/admin/v2/tenants", "/control/v1/status", "/admin/v2/brokers/health", "/nowhere")
    async with aiohttp.ClientSession(headers={"Host": "evil.example"}) as stranger:
        for path in paths:
            async with stranger.get(leader.url + path) as reply:
                assert reply.status == 421
    seen = await scrape(http, leader)
    counted = "broker_ctl_http_requests_total"
    assert seen.value(counted, route="refused", method="unknown", status="421") == 3
    assert seen.value(counted, route="unknown", method="unknown", status="421") == 1


async def test_the_lag_of_the_loop_and_the_process_are_measured(
    http: HttpClient, leader: Broker
) -> None:
    async def lag_was_seen() -> bool:
        return (await scrape(http, leader)).value("broker_ctl_loop_lag_seconds_count") > 0

    await eventually(lag_was_seen)
    seen = await scrape(http, leader)
    assert {"process_cpu_seconds_total", "process_open_fds", "python_info"} <= seen.names


@pytest.mark.parametrize(
    ("accepted", "is_preferred"),
    [
        ("application/openmetrics-text", True),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            True,
        ),
        ("application/openmetrics-text;q=0, text/plain", False),
        ("application/openmetrics-text;q=0.1, text/plain;q=0.9", False),
        ("text/plain, application/openmetrics-text;q=much", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_openmetrics_is_spoken_where_nothing_is_liked_better(
    accepted: str, is_preferred: bool
) -> None:
    assert exposition.prefers_openmetrics(accepted) is is_preferred


async def test_openmetrics_is_spoken_to_who_asks(leader: Broker) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{leader.url}/metrics", headers=accept) as reply,
    ):
        assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
        assert (await reply.text()).endswith("# EOF\n")


def test_every_declared_name_is_what_is_exposed() -> None:
    instruments = Instruments()
    for instrument in instruments:
        feed(instrument)
    families = InstrumentCollector(instruments, CLUSTER).collect()
    names = {sample.name for family in families for sample in family.samples}
    assert names == exposed_names()


def feed(instrument: object) -> None:
    match instrument:
        case Counter(labels=labels):
            instrument.add(*labels)
        case Gauge(labels=labels):
            instrument.bind(lambda: {labels: 1.0})
        case Histogram(labels=labels):
            instrument.observe(1.0, *labels)
        case Summary():
            instrument.bind(lambda: (1, [1.0]))
