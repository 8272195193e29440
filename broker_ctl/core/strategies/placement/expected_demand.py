"""What a bundle that no report knows yet is expected to cause.

A burst of such bundles would go to one broker if each of them counted as nothing: all choices
would see the same usage. Pulsar counts a bundle without samples as 50 messages and 50 KB a second
in each direction; here a broker's usage decides, so the default is a usage.
"""

from math import fsum
from typing import Final

from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Namespace

# Of a mean broker; two hundred such bundles fill one.
UNKNOWN_USAGE: Final = 0.005


def expected_usage(view: ClusterView, namespace: Namespace) -> float:
    """The mean usage of the namespace's reported bundles, and `UNKNOWN_USAGE` at least."""
    ring = view.rings.get(namespace)
    known = [
        bundle_view.load_vector.usage_ratio
        for bundle in (() if ring is None else ring.bundles)
        if (bundle_view := view.bundles.get(bundle)) is not None and bundle_view.current is not None
    ]
    return max(UNKNOWN_USAGE, fsum(known) / len(known) if known else 0.0)
