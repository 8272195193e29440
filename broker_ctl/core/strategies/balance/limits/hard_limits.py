"""The limits of brokers as the planner's columns (`core/rules/limits.py`)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from broker_ctl.core.cluster.view import BrokerView, BundleView
from broker_ctl.core.model.load_vector import LoadVector
from broker_ctl.core.rules.limits import MEASURES, BrokerLimits
from broker_ctl.core.strategies.balance.problem import Floats

_USAGE: Final = list(MEASURES).index("usage")


def bundle_columns(bundles: Sequence[BundleView], limits: BrokerLimits) -> Floats:
    """What each bundle counts against each limit, (bundles, limits); usage in mean brokers."""
    if not limits:
        return np.zeros((len(bundles), 0))
    return _columns([bundle_view.load_vector for bundle_view in bundles])


def broker_columns(brokers: Sequence[BrokerView], limits: BrokerLimits) -> tuple[Floats, Floats]:
    """What each broker has of each limit, and the most; usage in mean brokers."""
    if not limits:
        return np.zeros((len(brokers), 0)), np.zeros((len(brokers), 0))
    held = _columns([replace(each.held, size_ratio=1.0) for each in brokers])
    most = np.array([limits.of(each.broker_id).most for each in brokers], np.float64)
    sizes = np.array([each.expected.size_ratio for each in brokers], np.float64)
    held[:, _USAGE] *= sizes
    most[:, _USAGE] *= sizes
    return held, most


def _columns(loads: Sequence[LoadVector]) -> Floats:
    rows = [[measure.of(load) for measure in MEASURES.values()] for load in loads]
    return np.array(rows, np.float64).reshape(len(loads), len(MEASURES))
