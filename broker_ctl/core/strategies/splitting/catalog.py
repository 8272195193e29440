"""Split algorithms by the names of supportedNamespaceBundleSplitAlgorithms."""

from typing import Final

from broker_ctl.core.model.catalog import Catalog
from broker_ctl.core.strategies.splitting.algorithms import (
    flow_or_qps_equally_divide,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
    traffic_equally_divide,
)
from broker_ctl.core.strategies.splitting.request import SplitAlgorithm

# Algorithms that need the traffic of each topic.
BY_TRAFFIC: Final = frozenset({flow_or_qps_equally_divide, traffic_equally_divide})
SPLITTING: Final[Catalog[SplitAlgorithm]] = Catalog(
    "bundle split algorithm",
    {
        "range_equally_divide": range_equally_divide,
        "topic_count_equally_divide": topic_count_equally_divide,
        "specified_positions_divide": specified_positions_divide,
        "flow_or_qps_equally_divide": flow_or_qps_equally_divide,
        "traffic_equally_divide": traffic_equally_divide,
    },
)
