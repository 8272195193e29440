"""Bundles that a broker has given up and that nobody takes."""

from broker_ctl.attach.projection.reports import StuckBundles
from broker_ctl.core.model.names import Namespace, Ring

WHOLE, *HALVES = (
    *Ring.even(Namespace("t", "n"), 1).bundles,
    *Ring.even(Namespace("t", "n"), 2).bundles,
)


def test_a_bundle_is_stuck_when_nobody_has_taken_it_for_long() -> None:
    stuck = StuckBundles()
    stuck.look({WHOLE: "a"}, 0.0)
    stuck.look({}, 10.0)
    assert stuck.rows(20.0) == []
    stuck.look({}, 30.0)
    assert stuck.rows(30.0) == [{"bundle": str(WHOLE), "last_owner": "a", "for_s": 20.0}]
    stuck.look({WHOLE: "b"}, 31.0)
    assert stuck.rows(99.0) == []


def test_a_split_bundle_is_there_in_its_parts() -> None:
    stuck = StuckBundles()
    stuck.look({WHOLE: "a"}, 0.0)
    stuck.look({HALVES[0]: "a"}, 1.0)
    assert stuck.rows(99.0) == []
