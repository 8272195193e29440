"""Reports of brokers that answer with statistics and metrics, as Pulsar 4.0.8 writes them."""

from broker_ctl.attach.cluster_balancer import parse_samples, sum_of
from broker_ctl.attach.projection.reports import bundle_stats, run_of
from broker_ctl.core.model.load import BundleStats

METRICS = """\
# TYPE jvm_memory_bytes_used gauge
jvm_memory_bytes_used{cluster="test",area="heap"} 9.2162832E7
jvm_memory_bytes_used{cluster="test",area="nonheap"} 7.680484E7
process_start_time_seconds{cluster="test"} 1.795709945279E9
pulsar_lb_cpu_usage{cluster="test", broker="127.0.0.1", metric="loadBalancing"} 6.183375E-4
pulsar_topics_count{cluster="test",name="a \\"b\\" c"} 3 1795709945279
pulsar_odd NaN_
"""


def test_statistics_are_added_up_by_bundle() -> None:
    topic = {
        "publishers": [{}, {}],
        "subscriptions": {"a": {"consumers": [{}]}, "b": {"consumers": [{}, {}]}},
        "msgRateIn": 1.5,
        "msgRateOut": 3,
        "msgThroughputIn": 100.0,
        "msgThroughputOut": 200.0,
    }
    found = bundle_stats(
        {
            "t/n": {
                "0x0_0x1": {"persistent": {"a": topic}, "non-persistent": {"b": topic}},
                "0x1_0x2": {"persistent": {}},
            },
            "t/odd": "?",
        }
    )
    assert found == {
        "t/n/0x0_0x1": BundleStats(3.0, 6.0, 200.0, 400.0, 2, 4, 6),
        "t/n/0x1_0x2": BundleStats(),
    }


def test_what_is_not_a_number_counts_as_nothing() -> None:
    line = {"0x0_0x1": {"persistent": {"a": {"msgRateIn": "many", "msgThroughputIn": -1}}}}
    assert bundle_stats({"t/n": line}) == {"t/n/0x0_0x1": BundleStats(topics=1)}


def test_samples_are_found_by_name_and_labels() -> None:
    samples = parse_samples(METRICS)
    assert sum_of(samples, "jvm_memory_bytes_used", area="heap") == 9.2162832e7
    assert sum_of(samples, "jvm_memory_bytes_used") == 9.2162832e7 + 7.680484e7
    assert sum_of(samples, "pulsar_lb_cpu_usage") == 6.183375e-4
    assert sum_of(samples, "pulsar_topics_count") == 3.0
    assert sum_of(samples, "pulsar_odd") is None
    assert sum_of(samples, "missing") is None


def test_a_run_is_another_after_a_restart() -> None:
    runs = {run_of("a", 1), run_of("a", 2), run_of("b", 1)}
    assert len(runs) == 3
    assert 0 not in runs
    assert run_of("a", 1) == run_of("a", 1)
