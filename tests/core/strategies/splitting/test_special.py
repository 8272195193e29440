"""``LARGEST`` and ``HOT``."""

import pytest

from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.strategies.splitting.candidates import SPECIAL_NAMES, special_bundle
from broker_ctl.errors import BundleGone
from tests.support.clusters.views import BUNDLES, NAMESPACE, RING, broker, cluster, stats

A, B, C = BUNDLES[:3]
OTHER = Ring.even(Namespace("tenant", "other"), 1)
VIEW = cluster(
    [
        broker("b1", 0.5, {A: stats(5, topics=30), C: stats(5, topics=30)}),
        broker("b2", 0.1, {B: stats(9, topics=20), OTHER.bundles[0]: stats(99, topics=99)}),
    ],
    rings=[RING, OTHER],
)


def test_the_largest_has_the_most_topics_and_of_equals_it_is_the_first() -> None:
    assert special_bundle(VIEW, NAMESPACE, "LARGEST") == A


def test_the_hottest_has_the_most_bytes_in_the_long_run() -> None:
    assert special_bundle(VIEW, NAMESPACE, "HOT") == B


@pytest.mark.parametrize("name", SPECIAL_NAMES)
def test_a_namespace_of_which_nothing_is_known_has_neither(name: str) -> None:
    with pytest.raises(BundleGone, match=f"{name}: nothing was reported"):
        special_bundle(VIEW, Namespace("tenant", "unknown"), name)
    idle = cluster([broker("b1", 0.0, {A: BundleStats()})])
    with pytest.raises(BundleGone):
        special_bundle(idle, NAMESPACE, name)


@pytest.mark.parametrize("name", SPECIAL_NAMES)
def test_a_bundle_that_left_the_ring_is_not_special(name: str) -> None:
    gone = cluster([broker("b1", 0.5, {A: stats(99, topics=99), B: stats(1)})], rings=[OTHER])
    with pytest.raises(BundleGone):
        special_bundle(gone, NAMESPACE, name)
