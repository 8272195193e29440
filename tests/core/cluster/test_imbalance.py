import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.imbalance import (
    imbalance,
    imbalance_text,
    improves,
    is_harmless,
    is_worth_it,
    max_over_mean,
    mean_usage,
)
from broker_ctl.core.model.load import NO_LOAD, LoadVector, throughput_text
from tests.support.clusters.views import BUNDLES, broker, cluster, even_cluster, stats

load = st.builds(LoadVector, st.floats(0, 1), st.floats(0, 1e9))


@pytest.mark.parametrize(
    ("loads", "expected"),
    [([3, 3, 3], 1.0), ([4, 0], 2.0), ([2, 1, 0], 2.0)],
)
def test_imbalance_is_the_largest_load_over_the_mean(loads: list[float], expected: float) -> None:
    assert max_over_mean(loads) == pytest.approx(expected)


@pytest.mark.parametrize("loads", [[], [0, 0]])
def test_without_load_nothing_is_even_or_uneven(loads: list[float]) -> None:
    found = max_over_mean(loads)
    assert found is None
    assert imbalance_text(found) == "-"


def test_usage_and_throughput_are_judged_apart_and_draining_brokers_not_at_all() -> None:
    view = cluster(
        [
            broker("b1", 0.6, {BUNDLES[0]: stats(10)}),
            broker("b2", 0.2, {BUNDLES[1]: stats(30)}),
            broker("b3", 0.0, is_draining=True),
        ]
    )
    assert imbalance(view).usage == pytest.approx(1.5)
    assert imbalance(view).throughput == pytest.approx(1.5)
    assert imbalance(even_cluster({"b1": 0.9, "b2": 0.1})).usage == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("source", "destination", "moved", "expected"),
    [
        (0.9, 0.1, 0.4, True),
        (0.9, 0.1, 0.7, True),
        (0.9, 0.1, 0.8, False),
        (0.5, 0.5, 0.1, False),
        (0.9, 0.1, 0.0, False),
    ],
)
def test_the_receiver_must_end_below_what_the_giver_was(
    source: float, destination: float, moved: float, expected: bool
) -> None:
    assert improves(LoadVector(source), LoadVector(destination), LoadVector(moved)) is expected


def test_where_nobody_reports_usage_bytes_decide() -> None:
    assert improves(LoadVector(0, 100), LoadVector(0, 10), LoadVector(0, 50))
    assert not improves(LoadVector(0, 100), LoadVector(0, 60), LoadVector(0, 50))


def test_a_broker_never_has_less_than_nothing() -> None:
    one, two = LoadVector(0.1, 1.0, 1.0, 1), LoadVector(0.2, 2.0, 2.0, 2)
    assert one - two == NO_LOAD
    assert two - one == one
    assert one + one == two


@given(load, load, load)
def test_a_move_that_improved_is_never_improved_by_going_back(
    source: LoadVector, destination: LoadVector, moved: LoadVector
) -> None:
    if improves(source, destination, moved):
        assert not improves(destination + moved, source - moved, moved) or (
            # Rounding may take a little off the way back, never more.
            (source - moved + moved).usage_ratio < source.usage_ratio
            or (source - moved + moved).throughput_bytes < source.throughput_bytes
        )


@pytest.mark.parametrize(
    ("bytes_s", "text"),
    [
        (0, "0.0 B/s"),
        (1023, "1023.0 B/s"),
        (1536, "1.5 KiB/s"),
        (2**30, "1.0 GiB/s"),
        (2**60, "1048576.0 TiB/s"),
    ],
)
def test_throughput_is_written_in_round_units(bytes_s: float, text: str) -> None:
    assert throughput_text(bytes_s) == text


# Brokers of several sizes: the usage of a bundle is that on a mean broker.

SMALL, LARGE = LoadVector(0.5, size_ratio=0.5), LoadVector(0.5, size_ratio=2.0)


def test_a_small_broker_is_filled_by_what_a_large_one_hardly_feels() -> None:
    bundle = LoadVector(0.1)
    assert [bundle.usage_on(size) for size in (0.5, 1.0, 2.0)] == [0.2, 0.1, 0.05]
    assert (SMALL + bundle).usage_ratio == pytest.approx(0.7)
    assert (LARGE + bundle).usage_ratio == pytest.approx(0.55)
    assert (SMALL - bundle).usage_ratio == pytest.approx(0.3)
    assert (LARGE - bundle).usage_ratio == pytest.approx(0.45)
    assert (SMALL + bundle).size_ratio == (SMALL - bundle).size_ratio == 0.5
    assert LARGE.part(0.25) == LoadVector(0.125, size_ratio=2.0)
    assert LARGE.usage_on(1.0) == 1.0


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        # 20 points on the small one, 5 on the large one.
        (LoadVector(0.8, size_ratio=2.0), LoadVector(0.59, size_ratio=0.5), True),
        (LoadVector(0.8, size_ratio=2.0), LoadVector(0.61, size_ratio=0.5), False),
        (LoadVector(0.8, size_ratio=0.5), LoadVector(0.74, size_ratio=2.0), True),
        (LoadVector(0.8, size_ratio=0.5), LoadVector(0.76, size_ratio=2.0), False),
    ],
)
def test_a_move_is_judged_by_what_it_takes_of_the_receiver(
    source: LoadVector, destination: LoadVector, *, expected: bool
) -> None:
    moved = LoadVector(0.1)
    assert improves(source, destination, moved) is expected
    assert is_harmless(source, destination, moved) is expected
    assert is_worth_it(Reason.IMBALANCE, source, destination, moved) is expected
    # From a drained broker anything is better than to stay.
    assert is_worth_it(Reason.DRAIN, source, destination, moved)


def test_the_mean_usage_is_that_of_brokers_that_stay() -> None:
    staying = [broker("b1", 0.6, {BUNDLES[0]: stats(10)}), broker("b2", 0.2)]
    leaving = broker("b3", 0.9, {BUNDLES[1]: stats(10)}, is_draining=True)
    assert mean_usage(cluster([*staying, leaving])) == pytest.approx(0.4)
    assert mean_usage(cluster([leaving])) == mean_usage(cluster([])) == 0.0
