"""Plain values that are counted and measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.instruments.declared import Instruments, exposed_names
from broker_ctl.instruments.kinds import MAX_SERIES, OTHER, Counter, Gauge, Histogram, Summary


def values(instrument: Counter | Gauge | Histogram | Summary) -> dict[tuple[str, ...], float]:
    return {(sample.name, *sample.labels.values()): sample.value for sample in instrument.samples()}


def test_a_counter_counts_by_labels() -> None:
    counter = Counter("c_total", "says", ("a", "b"), {"k": "v"})
    assert values(counter) == {}
    counter.add("1", "2")
    counter.add("1", "2", amount=2.5)
    counter.add("1", "3")
    assert values(counter) == {("c_total", "v", "1", "2"): 3.5, ("c_total", "v", "1", "3"): 1}


def test_a_series_of_a_counter_can_begin_at_zero() -> None:
    counter = Counter("c_total", "says", ("a",))
    counter.start("1")
    assert values(counter) == {("c_total", "1"): 0}
    counter.add("1")
    counter.start("1")
    assert values(counter) == {("c_total", "1"): 1}


def test_a_counter_without_labels_begins_at_zero() -> None:
    assert values(Counter("c_total", "says")) == {("c_total",): 0}


def test_a_histogram_without_labels_begins_at_zero() -> None:
    seen = values(Histogram("h", "says", bounds=(1,)))
    assert seen == {("h_bucket", "1.0"): 0, ("h_bucket", "+Inf"): 0, ("h_count",): 0, ("h_sum",): 0}
    assert values(Histogram("h", "says", ("a",), bounds=(1,))) == {}


def test_labels_that_were_not_declared_are_a_bug() -> None:
    with pytest.raises(ValueError, match="has the labels"):
        Counter("c_total", "says", ("a",)).add("1", "2")
    with pytest.raises(ValueError, match="has the labels"):
        Histogram("h", "says", bounds=(1,)).observe(1, "x")


def test_label_values_without_end_are_counted_together() -> None:
    counter = Counter("c_total", "says", ("a",))
    histogram = Histogram("h", "says", ("a",), bounds=(1,))
    for number in range(MAX_SERIES + 50):
        counter.add(str(number))
        histogram.observe(0.5, str(number))
    counter.add("0")
    seen = values(counter)
    assert len(seen) == MAX_SERIES + 1
    assert seen["c_total", OTHER] == 50
    assert seen["c_total", "0"] == 2
    assert values(histogram)["h_count", OTHER] == 50
    assert sum(seen.values()) == MAX_SERIES + 51


def test_a_histogram_is_cumulative_and_holds_its_bounds() -> None:
    histogram = Histogram("h", "says", bounds=(1, 5))
    for value in (0.0, 1.0, 1.5, 5.0, 5.1):
        histogram.observe(value)
    assert values(histogram) == {
        ("h_bucket", "1.0"): 2,
        ("h_bucket", "5.0"): 4,
        ("h_bucket", "+Inf"): 5,
        ("h_count",): 5,
        ("h_sum",): 12.6,
    }


@given(
    st.lists(st.integers(0, 60).map(lambda tenths: tenths / 10), max_size=60),
    st.sampled_from([(), (1,), (1, 2.5, 5)]),
)
def test_what_is_observed_together_counts_as_one_by_one(
    seen: list[float], bounds: tuple[float, ...]
) -> None:
    together, alone = Histogram("h", "says", bounds=bounds), Histogram("h", "says", bounds=bounds)
    together.observe_many(seen)
    for value in seen:
        alone.observe(value)
    assert values(together) == pytest.approx(values(alone))


def test_a_series_is_bound_once_and_is_there_from_then_on() -> None:
    histogram = Histogram("h", "says", ("a",), bounds=(1,))
    series = histogram.labelled("x")
    assert values(histogram)["h_count", "x"] == 0
    series.observe(0.5)
    histogram.observe_many([0.5, 3.0], "x")
    assert histogram.labelled("x") is series
    assert series.counts == (2, 1)
    assert series.sum == 4.0
    assert values(histogram)["h_bucket", "x", "+Inf"] == 3


def test_a_gauge_is_read_when_it_is_asked() -> None:
    gauge, kinds = Gauge("g", "says"), Gauge("k", "says", ("kind",))
    assert values(gauge) == {}
    now = {"value": 1.0}
    gauge.bind(lambda: now["value"])
    kinds.bind(lambda: {("x",): now["value"], ("y",): 0.0})
    now["value"] = 2.0
    assert values(gauge) == {("g",): 2}
    assert values(kinds) == {("k", "x"): 2, ("k", "y"): 0}


def test_a_summary_has_quantiles_of_the_newest_and_counts_all() -> None:
    summary = Summary("s", "says")
    assert values(summary) == {}
    summary.bind(lambda: (5000, range(100, 0, -1)))
    seen = values(summary)
    assert seen["s", "0.5"] == 51
    assert seen["s", "0.99"] == 100
    assert seen["s", "1.0"] == 100
    assert seen["s_count",] == 5000


def test_names_are_unique_and_say_their_kind() -> None:
    instruments = list(Instruments())
    assert len({one.name for one in instruments}) == len(instruments)
    for one in instruments:
        assert (one.kind == "counter") == one.name.endswith("_total"), one.name
        assert one.help.endswith("."), one.name
        assert one.name.startswith(("pulsar_", "caffeine_", "kafka_", "broker_ctl_")), one.name
    assert "pulsar_metadata_store_ops_latency_ms_bucket" in exposed_names()


def test_each_process_has_its_own() -> None:
    first, second = Instruments(), Instruments()
    first.session.events.add("lost")
    assert values(first.session.events)
    assert not values(second.session.events)
