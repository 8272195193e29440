"""What a scraper finds at a daemon of the real thing, against Pulsar's table.

The table stands here in full (docs: pulsar-store-metrics, pulsar-metrics): to derive
it from the declarations would be to compare them with themselves.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from tests.end_to_end.conftest import NewCluster
from tests.support.daemon.running_daemons import look_up, make_namespace
from tests.support.time.waiting import eventually


class Row(NamedTuple):
    """A family.

    Attributes:
        labels: beside ``cluster``.
        bounds: of a histogram beside infinity, or the quantiles of a summary.
        metric: the value of Pulsar's label of that name, which is the same in all series.
    """

    type: str
    labels: str = ""
    bounds: str = ""
    metric: str = ""


BATCH: Final = "1 5 10 20 50 100 200 500 1000"
OPERATION: Final = "1 3 5 10 20 50 100 200 500 1000 2000 5000"

PULSARS: Final = {
    "pulsar_batch_metadata_store_queue_wait_time_ms": Row("histogram", "name", BATCH),
    "pulsar_batch_metadata_store_batch_execute_time_ms": Row("histogram", "name", BATCH),
    "pulsar_batch_metadata_store_batch_size": Row("histogram", "name", BATCH),
    "pulsar_metadata_store_ops_latency_ms": Row("histogram", "name type status", OPERATION),
    "pulsar_metadata_store_put_bytes_total": Row("counter", "name"),
    "caffeine_cache_hit_total": Row("counter", "cache"),
    "caffeine_cache_miss_total": Row("counter", "cache"),
    "caffeine_cache_requests_total": Row("counter", "cache"),
    "caffeine_cache_eviction_total": Row("counter", "cache"),
    "caffeine_cache_loads_total": Row("counter", "cache"),
    "caffeine_cache_load_failure_total": Row("counter", "cache"),
    "caffeine_cache_estimated_size": Row("gauge", "cache"),
}
LOAD: Final = "loadBalancing"
TRAFFIC: Final = Row("gauge", "broker bundle", metric="bundle")
UNLOADING: Final = "bundleUnloading"
SPLITTING: Final = "bundlesSplit"
LOOKUPS: Final = "0.5 0.75 0.95 0.99 0.999 1"

BALANCING: Final = {
    "pulsar_lb_cpu_usage": Row("gauge", "broker", metric=LOAD),
    "pulsar_lb_memory_usage": Row("gauge", "broker", metric=LOAD),
    "pulsar_lb_directMemory_usage": Row("gauge", "broker", metric=LOAD),
    "pulsar_lb_bandwidth_in_usage": Row("gauge", "broker", metric=LOAD),
    "pulsar_lb_bandwidth_out_usage": Row("gauge", "broker", metric=LOAD),
    "pulsar_lb_resource_usage": Row("gauge", "broker feature", metric=LOAD),
    "pulsar_lb_unload_broker_total": Row("counter", metric=UNLOADING),
    "pulsar_lb_unload_bundle_total": Row("counter", metric=UNLOADING),
    "pulsar_lb_unload_broker_breakdown_total": Row("counter", "result reason", metric=UNLOADING),
    "pulsar_lb_bundles_split_total": Row("counter", metric=SPLITTING),
    "pulsar_lb_bundles_split_breakdown_total": Row("counter", "result reason", metric=SPLITTING),
    "pulsar_lb_assign_broker_breakdown_total": Row("counter", "result", metric="assign"),
    "pulsar_bundle_msg_rate_in": TRAFFIC,
    "pulsar_bundle_msg_rate_out": TRAFFIC,
    "pulsar_bundle_topics_count": TRAFFIC,
    "pulsar_bundle_consumer_count": TRAFFIC,
    "pulsar_bundle_producer_count": TRAFFIC,
    "pulsar_bundle_msg_throughput_in": TRAFFIC,
    "pulsar_bundle_msg_throughput_out": TRAFFIC,
    "pulsar_lb_load_rank": Row("gauge", "broker"),
    "pulsar_lb_quota_pct_cpu": Row("gauge", "broker"),
    "pulsar_lb_quota_pct_memory": Row("gauge", "broker"),
    "pulsar_lb_quota_pct_bandwidth_in": Row("gauge", "broker"),
    "pulsar_lb_quota_pct_bandwidth_out": Row("gauge", "broker"),
    "pulsar_broker_load_manager_bundle_assigment": Row("summary", "", "0.5 0.99 0.999 1"),
    "pulsar_broker_lookup": Row("summary", "", LOOKUPS),
    "pulsar_broker_lookup_answers_total": Row("counter"),
    "pulsar_broker_lookup_redirects_total": Row("counter"),
    "pulsar_broker_lookup_failures_total": Row("counter"),
    "pulsar_broker_lookup_pending_requests": Row("gauge"),
    "pulsar_broker_topic_load_pending_requests": Row("gauge"),
}
SECONDS: Final = "0.05 0.1 0.25 0.5 1 2.5 5 10 30 60"
ADDED: Final = {
    "broker_ctl_store_round_trip_seconds": Row(
        "histogram", "name request", "0.001 0.003 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5"
    ),
    "broker_ctl_store_requests_in_flight": Row("gauge", "name lane"),
    "broker_ctl_ambiguous_results_total": Row("counter", "op resolution"),
    "broker_ctl_znode_signature_failures_total": Row("counter", "family reason"),
    "broker_ctl_unproven_lookups_total": Row("counter", "reason"),
    "broker_ctl_cluster_key": Row("gauge", "key use"),
    "broker_ctl_signed_requests_refused_total": Row("counter", "reason"),
    "broker_ctl_binary_connections": Row("gauge"),
    "broker_ctl_binary_requests_in_flight": Row("gauge"),
    "broker_ctl_binary_connections_refused_total": Row("counter"),
    "broker_ctl_http_connections": Row("gauge"),
    "broker_ctl_http_connections_refused_total": Row("counter"),
    "broker_ctl_http_connections_unread_total": Row("counter"),
    "broker_ctl_authentication_failures_total": Row("counter", "protocol"),
    "broker_ctl_rate_limited_requests_total": Row("counter", "protocol limit"),
    "broker_ctl_peer_addresses_refused_total": Row("counter", "source"),
    "broker_ctl_multi_rollbacks_total": Row("counter", "name"),
    "broker_ctl_cache_invalidate_all_total": Row("counter", "cache"),
    "broker_ctl_zookeeper_servers_without_quorum": Row("gauge", "name"),
    "broker_ctl_session_state": Row("gauge", "state"),
    "broker_ctl_session_events_total": Row("counter", "event"),
    "broker_ctl_lease_remaining_seconds": Row("gauge"),
    "broker_ctl_session_timeout_seconds": Row("gauge"),
    "broker_ctl_loop_lag_seconds": Row(
        "histogram", "", "0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 5"
    ),
    "broker_ctl_revalidation_seconds": Row(
        "histogram", "", "0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30"
    ),
    "broker_ctl_lock_lost_total": Row("counter", "reason"),
    "broker_ctl_lead_epoch": Row("gauge", "seat"),
    "broker_ctl_deletions_queued": Row("gauge"),
    "broker_ctl_deletions_age_seconds": Row("gauge"),
    "broker_ctl_deletions_given_up_total": Row("counter"),
    "broker_ctl_task_failures_total": Row("counter"),
    "broker_ctl_dead_tasks": Row("gauge"),
    "broker_ctl_corrupt_nodes_total": Row("counter", "kind"),
    "broker_ctl_cache_refreshes_total": Row("counter", "cache"),
    "broker_ctl_decisions_total": Row("counter", "kind reason result"),
    "broker_ctl_ownership_lost_total": Row("counter", "cause"),
    "broker_ctl_dataplane_fenced_total": Row("counter"),
    "broker_ctl_dataplane_restarts_total": Row("counter"),
    "broker_ctl_bundles_reclaimed_total": Row("counter", "outcome"),
    "broker_ctl_reclaim_seconds": Row("histogram", "", SECONDS),
    "broker_ctl_unload_seconds": Row("histogram", "", SECONDS),
    "broker_ctl_imbalance_ratio": Row("gauge", "of"),
    "broker_ctl_load_report_age_seconds": Row("gauge", "broker"),
}
# The load of brokers that have none is neither even nor uneven.
OF_LOAD: Final = {"broker_ctl_imbalance_ratio"}
# Of these a cluster has no series in which nothing went wrong.
OF_TROUBLE: Final = {
    "broker_ctl_rate_limited_requests_total",
    "broker_ctl_ambiguous_results_total",
    "broker_ctl_znode_signature_failures_total",
    "broker_ctl_unproven_lookups_total",
    "broker_ctl_cluster_key",
    "broker_ctl_signed_requests_refused_total",
    "broker_ctl_multi_rollbacks_total",
    "broker_ctl_session_events_total",
}
# The Simple manager, which has ranks that no other has, keeps no averages of usage.
AVERAGES: Final = {
    "pulsar_lb_resource_usage_stats": Row("gauge", "feature stat", metric=LOAD),
}
STORE: Final = "metadata-store"
# Of the settings whose series are not there by default.
SHOWING: Final = {
    "exposeBundlesMetricsInPrometheus": "true",
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl",
}
# Removed by PIP-453.
GONE: Final = "pulsar_batch_metadata_store_executor_queue_size"


async def scrape(http: HttpClient, daemon: DaemonProcess) -> Mapping[str, Metric]:
    """Families by the name that a counter's series have."""
    reply = await http.request("GET", f"{daemon.url}/metrics")
    assert reply.status == 200
    families = text_string_to_metric_families(reply.body.decode())
    return {one.name + ("_total" if one.type == "counter" else ""): one for one in families}


def row_of(family: Metric) -> Row:
    """What was scraped, in the terms of the table; every series carries the same labels."""
    (labels,) = {frozenset(sample.labels) - {"le", "quantile"} for sample in family.samples}
    assert "cluster" in labels
    (metric,) = {sample.labels.get("metric", "") for sample in family.samples}
    bounds = {
        sample.labels[label]
        for sample in family.samples
        for label in ("le", "quantile")
        if label in sample.labels
    }
    return Row(
        family.type,
        " ".join(sorted(labels - {"cluster", "metric"})),
        spaced(map(float, bounds - {"+Inf"})),
        metric,
    )


def spaced(bounds: Iterable[float]) -> str:
    return " ".join(f"{bound:g}" for bound in sorted(bounds))


def values(family: Metric, label: str) -> set[str]:
    return {sample.labels[label] for sample in family.samples}


@pytest.fixture
async def found(new_cluster: NewCluster, http: HttpClient) -> Mapping[str, Metric]:
    """Scraped of a leader that owns a bundle, has measured it, and has decided something."""
    topic = Topic("persistent", Namespace("public", "default"), "topic-1")
    async with new_cluster(1, **SHOWING) as daemons:
        await daemons.wait_ready(http)
        only = daemons.all[0]
        await make_namespace(http, only)
        await eventually(lambda: look_up(http, only, topic), what="an owner")

        async def scraped() -> Mapping[str, Metric] | None:
            families = await scrape(http, only)
            is_decided = any(each.value for each in families["broker_ctl_decisions_total"].samples)
            return (
                families if is_decided and families["pulsar_bundle_topics_count"].samples else None
            )

        return await eventually(scraped, what="a measured bundle and a decision", poll_s=0.2)


def test_a_scrape_has_the_names_types_labels_and_buckets_of_the_reference(
    found: Mapping[str, Metric],
) -> None:
    table = {**PULSARS, **BALANCING, **ADDED}
    assert table.keys() - found.keys() == set()
    assert GONE not in found
    silent = {name for name in table if not found[name].samples}
    assert silent - OF_TROUBLE == OF_LOAD
    for name, row in table.items():
        assert found[name].type == row.type, name
        if name not in silent:
            labels = " ".join(sorted(row.labels.split()))
            assert row_of(found[name]) == row._replace(labels=labels), name
    assert values(found["pulsar_metadata_store_ops_latency_ms"], "name") == {STORE}
    assert values(found["pulsar_metadata_store_ops_latency_ms"], "type") == {"get", "put", "del"}
    assert values(found["pulsar_metadata_store_ops_latency_ms"], "status") == {"success", "fail"}
    assert values(found["broker_ctl_store_requests_in_flight"], "lane") == {"read", "write"}
    reasons = {"gone", "other", "session_ended"}
    assert values(found["broker_ctl_lock_lost_total"], "reason") == reasons
    assert {"get", "multi"} <= values(found["broker_ctl_store_round_trip_seconds"], "request")
    assert values(found["pulsar_lb_resource_usage"], "feature") == {"max"}
    assigned = {"Success", "Empty", "Skip"}
    assert values(found["pulsar_lb_assign_broker_breakdown_total"], "result") == assigned


def test_metrics_count_the_work_of_a_daemon(found: Mapping[str, Metric]) -> None:
    def total(name: str, suffix: str = "") -> float:
        return sum(s.value for s in found[name].samples if s.name == name + suffix)

    assert total("pulsar_metadata_store_put_bytes_total") > 0
    assert total("pulsar_metadata_store_ops_latency_ms", "_count") > 0
    assert total("broker_ctl_store_round_trip_seconds", "_sum") > 0
    for batched in ("queue_wait_time_ms", "batch_execute_time_ms", "batch_size"):
        assert total(f"pulsar_batch_metadata_store_{batched}", "_count") > 0, batched
    reads = total("caffeine_cache_hit_total") + total("caffeine_cache_miss_total")
    assert total("caffeine_cache_requests_total") == reads > 0
    assert total("caffeine_cache_estimated_size") > 0
    assert_placed(found)


def assert_placed(found: Mapping[str, Metric]) -> None:
    """One bundle, by this leader, on itself."""
    assigned = found["pulsar_lb_assign_broker_breakdown_total"].samples
    results = {sample.labels["result"]: sample.value for sample in assigned}
    assert results["Success"] >= 1
    summary = found["pulsar_broker_load_manager_bundle_assigment"].samples
    (count,) = [sample.value for sample in summary if sample.name.endswith("_count")]
    assert count == sum(results.values())
    ((bundle, topics),) = {
        (sample.labels["bundle"], sample.value)
        for sample in found["pulsar_bundle_topics_count"].samples
    }
    assert bundle.startswith("public/default/0x")
    assert topics > 0
    (age,) = [sample.value for sample in found["broker_ctl_load_report_age_seconds"].samples]
    assert 0 <= age < 60


async def test_a_leader_whose_strategy_keeps_averages_of_usage_shows_them(
    new_cluster: NewCluster, http: HttpClient
) -> None:
    async with new_cluster(1) as daemons:
        await daemons.wait_ready(http)

        async def scraped() -> Mapping[str, Metric] | None:
            families = await scrape(http, daemons.all[0])
            return families if all(families[name].samples for name in AVERAGES) else None

        shown = await eventually(scraped, what="averages of usage", poll_s=0.2)
    assert {name: row_of(shown[name]) for name in AVERAGES} == AVERAGES
    assert values(shown["pulsar_lb_resource_usage_stats"], "feature") == {"max_ema"}
    assert values(shown["pulsar_lb_resource_usage_stats"], "stat") == {"avg", "std"}
    assert values(shown["pulsar_lb_resource_usage"], "feature") == {"max", "max_ema"}
