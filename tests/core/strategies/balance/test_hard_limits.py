"""The limits of brokers as columns of the planner's problem."""

from dataclasses import replace

import numpy as np
import pytest

from broker_ctl.core.rules.limits import MEASURES, BrokerLimits
from broker_ctl.core.strategies.balance.limits import broker_columns, bundle_columns
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

USAGE, TOPICS = (list(MEASURES).index(name) for name in ("usage", "topics"))


def test_usage_is_in_mean_brokers_so_that_a_bundle_counts_the_same_everywhere() -> None:
    """Half of a small broker is as much as a sixth of one three times its size."""
    small = replace(broker("small", 0.5, {BUNDLES[0]: stats(10, topics=4)}), size_ratio=0.5)
    large = replace(broker("large", 0.5), size_ratio=1.5)
    view = cluster([small, large])
    limits = BrokerLimits.parse(".* usage=60 topics=9")
    held, most = broker_columns([view.brokers["small"], view.brokers["large"]], limits)
    assert held[:, USAGE] == pytest.approx([0.25, 0.75])
    assert most[:, USAGE] == pytest.approx([0.3, 0.9])
    assert (held[:, TOPICS].tolist(), most[:, TOPICS].tolist()) == ([4, 0], [9, 9])
    takes = bundle_columns([view.bundles[BUNDLES[0]]], limits)
    assert takes[0, [USAGE, TOPICS]] == pytest.approx([0.25, 4])


def test_without_a_table_there_are_no_columns() -> None:
    view = cluster([broker("b", 0.5, {BUNDLES[0]: stats(10)})])
    held, most = broker_columns([view.brokers["b"]], BrokerLimits())
    takes = bundle_columns([view.bundles[BUNDLES[0]]], BrokerLimits())
    assert (held.shape, most.shape, takes.shape) == ((1, 0), (1, 0), (1, 0))
    assert np.logical_and.reduce(held <= most, axis=-1).tolist() == [True]
