"""Averages by columns are those of the leader's load monitor, to the last bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_ctl.core.model.load import LONG_SAMPLES, BundleLoad, BundleStats
from broker_ctl.simulation.replay.board import Averages

RATES = st.floats(0, 1e12)
SAMPLE = st.builds(BundleStats, RATES, RATES, RATES, RATES, st.integers(0, 500))
# Samples of one bundle; None: it is not reported in that minute.
SERIES = st.lists(st.none() | SAMPLE, max_size=25)


def folded(averages: Averages, samples: dict[int, BundleStats]) -> None:
    rates = [
        [s.msg_rate_in, s.msg_rate_out, s.msg_throughput_in, s.msg_throughput_out]
        for s in samples.values()
    ]
    averages.fold(
        np.array(list(samples), dtype=np.int64),
        np.array(rates, dtype=np.float64).reshape(-1, 4).T,
        np.array([s.topics for s in samples.values()], dtype=np.int64),
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(SERIES, min_size=1, max_size=3))
def test_folding_all_at_once_is_folding_each(series: list[list[BundleStats | None]]) -> None:
    averages = Averages(len(series))
    expected = [BundleLoad.unseen()] * len(series)
    for minute in range(max(map(len, series))):
        reported = {
            place: sample
            for place, samples in enumerate(series)
            if minute < len(samples) and (sample := samples[minute]) is not None
        }
        folded(averages, reported)
        for place, stats in reported.items():
            expected[place] = expected[place].fold(stats)
    assert averages.all() == expected
    assert [averages.of(place) for place in range(len(series))] == expected


def test_the_long_average_is_full_after_a_thousand() -> None:
    averages, expected = Averages(1), BundleLoad.unseen()
    for number in range(LONG_SAMPLES + 20):
        stats = BundleStats(float(number % 7), 1.0, float(number % 11), 2.0, topics=3)
        folded(averages, {0: stats})
        expected = expected.fold(stats)
    assert averages.all() == [expected]
    assert expected.long.samples == LONG_SAMPLES


def test_averages_that_replace_others_take_their_place() -> None:
    averages = Averages(3)
    folded(averages, {place: BundleStats(10.0 * place, topics=place) for place in range(3)})
    first, second, third = averages.all()
    averages.replace(1, 1, [second.part(0.25), second.part(0.75)])
    assert averages.all() == [first, second.part(0.25), second.part(0.75), third]
    averages.replace(0, 2, [BundleLoad.unseen()])
    assert averages.all() == [BundleLoad.unseen(), second.part(0.75), third]
    # The first sample replaces a guess.
    folded(averages, {1: BundleStats(4.0, topics=2)})
    assert averages.of(1) == second.part(0.75).fold(BundleStats(4.0, topics=2))
