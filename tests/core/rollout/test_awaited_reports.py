"""Which reports the gate of a rollout waits for: those that would show moved traffic."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.view import BundleView
from broker_ctl.core.model.load import BundleLoad, BundleStats, TimeAverage
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rollout.rollout import awaits_report

BUNDLE = Bundle.parse("t/n/0x00000000_0x80000000")
QUIET, BUSY = BundleStats(), BundleStats(msg_rate_in=1000.0, msg_throughput_in=1e6)
MOVED_S = 100.0


def moved(msg_rate: float, throughput: float, at_s: float | None = MOVED_S) -> BundleView:
    average = TimeAverage(10, 10, msg_rate_in=msg_rate, msg_throughput_out=throughput)
    return BundleView(BUNDLE, "b", BundleLoad(average, average), last_released_s=at_s)


@pytest.mark.parametrize(
    ("bundle", "reported", "is_awaited"),
    [
        (moved(50.0, 0.0), QUIET, True),
        (moved(0.0, 5e4), QUIET, True),
        # Its topics have no clients; no broker of Pulsar will ever list it.
        (moved(0.0, 0.0), QUIET, False),
        # What is left in the average of clients that went.
        (moved(0.3, 300.0), QUIET, False),
        # A change that is too small for a report of its own.
        (moved(50.0, 5e4), BUSY, False),
        (moved(150.0, 0.0), BUSY, True),
        # It was not moved in this term.
        (moved(50.0, 0.0, None), QUIET, False),
    ],
)
def test_a_report_from_before_a_move_is_not_enough_if_it_hides_traffic(
    bundle: BundleView, reported: BundleStats, is_awaited: bool
) -> None:
    assert awaits_report([bundle], MOVED_S - 1, reported) is is_awaited
    # A later one is, whatever it lists.
    assert not awaits_report([bundle], MOVED_S + 1, reported)


def test_many_small_bundles_count_together() -> None:
    small = [replace(moved(0.4, 0.0), bundle=BUNDLE) for _ in range(3)]
    assert awaits_report(small, 0.0, QUIET)
    assert not awaits_report(small[:2], 0.0, QUIET)
    assert not awaits_report([], 0.0, QUIET)
