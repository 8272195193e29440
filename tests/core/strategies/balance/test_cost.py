"""What a byte costs, whatever the size of the broker and of the messages."""

from dataclasses import replace
from typing import Final

import pytest

from broker_ctl.core.cluster.view import BrokerView
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleStats,
    ResourceUsage,
    SystemUsage,
    UsageWeights,
)
from broker_ctl.core.rules.leader_rules import MIB
from broker_ctl.core.strategies.balance.slowness import (
    SlownessSample,
    fullest_size_ratios,
    sample_costs,
)
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

GBIT: Final = 1_000_000.0


def machine(
    cores: int, cpu_ratio: float, gbit: float = 10, network_ratio: float = 0.1
) -> SystemUsage:
    return SystemUsage(
        cpu=ResourceUsage(cores * 100 * cpu_ratio, cores * 100),
        bandwidth_in=ResourceUsage(gbit * GBIT * network_ratio, gbit * GBIT),
    )


def reported(broker_id: str, usage: SystemUsage, usage_ratio: float, mib: float) -> BrokerView:
    seen = broker(broker_id, usage_ratio, {BUNDLES[int(broker_id[1:])]: stats(mib, msg_rate=0)})
    return replace(seen, load=replace(seen.load, usage=usage))


def test_a_broker_half_as_large_is_not_slower_for_the_same_byte() -> None:
    view = cluster(
        [
            reported("b1", machine(16, 0.3), 0.3, 100),
            reported("b2", machine(16, 0.6), 0.6, 200),
            reported("b3", machine(8, 0.6), 0.6, 100),
        ]
    )
    samples = sample_costs(view)
    assert [samples[key].size_ratio for key in ("b1", "b2", "b3")] == [1.0, 1.0, 0.5]
    costs = [sample.cost * 100 * MIB for sample in samples.values()]
    assert costs == pytest.approx([0.3, 0.3, 0.3])


def test_the_size_is_that_of_the_fullest_resource() -> None:
    usages = {
        "small link": machine(16, 0.3, gbit=1, network_ratio=0.8),
        "large link": machine(16, 0.3, gbit=10, network_ratio=0.08),
        "many cores": machine(64, 0.3),
    }
    assert fullest_size_ratios(usages) == {"small link": 0.1, "large link": 1.0, "many cores": 4.0}
    # Where the link does not count, nobody is smaller for it.
    weights = UsageWeights(bandwidth_in=0.0)
    assert fullest_size_ratios(usages, weights)["small link"] == 1.0


def test_where_the_limit_is_unknown_a_broker_is_taken_for_a_median_one() -> None:
    usages = {"b1": SystemUsage(), "b2": SystemUsage(), "b3": machine(8, 0.5)}
    assert fullest_size_ratios(usages) == {"b1": 1.0, "b2": 1.0, "b3": 1.0}
    assert fullest_size_ratios({}) == {}


def test_small_messages_cost_more_than_their_bytes() -> None:
    large = SlownessSample(0.5, 50e6, msg_rate=50)
    small = SlownessSample(0.5, 5e6, msg_rate=45_050)
    assert small.cost == pytest.approx(large.cost)
    assert SlownessSample(0.5, 0).cost == 0


def test_samples_are_of_the_report_alone_and_of_brokers_that_stay() -> None:
    lines = {str(BUNDLES[0]): stats(10), str(BUNDLES[1]): stats(20)}
    load = BrokerLoad("b1", bundles=lines, unlisted=stats(5))
    view = cluster(
        [
            BrokerView("b1", load, 0.4, age_s=7.0),
            broker("b2", 0.4, {BUNDLES[2]: stats(30)}, is_draining=True),
        ],
        # It has moved away meanwhile: usage and traffic of the report belong together.
        owners={BUNDLES[1]: "b2"},
    )
    total = BundleStats.total_of([stats(35)])
    assert sample_costs(view) == {"b1": SlownessSample(0.4, total.throughput, total.msg_rate, 1, 7)}
    assert view.brokers["b1"].expected.throughput_bytes < total.throughput
