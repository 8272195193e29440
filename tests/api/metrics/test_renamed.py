"""Metrics under their earlier names: the same figures, in the unit of the earlier name."""

import pytest
from prometheus_client.metrics_core import Metric

from broker_ctl.api.metrics.exposition import InstrumentCollector
from broker_ctl.instruments.declared import Instruments
from broker_ctl.instruments.kinds import Counter, Gauge, Histogram, Instrument
from broker_ctl.instruments.renamed import RENAMED
from tests.deploy.test_metric_names import alerts, panels, series_in

# Observed in seconds, and in milliseconds before: at a bound, within a bucket, and above all.
OBSERVED_S = (0.005, 0.0042, 90.0)
STORE_MS = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
CONTROLLER_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000)
EARLIER_BOUNDS_MS = {
    "broker_ctl_store_round_trip_ms": STORE_MS,
    "broker_ctl_loop_lag_ms": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000),
    "broker_ctl_controller_event_ms": CONTROLLER_MS,
    "broker_ctl_controller_acknowledge_ms": CONTROLLER_MS,
}
# The values that `fed` gives to instruments which are not histograms.
EARLIER_VALUES = {
    "broker_ctl_report_bundles_left_out": 2.5,
    "broker_ctl_bundles_lost_total": 7,
    "broker_ctl_orders_total": 7,
    "broker_ctl_destinations_ignored_total": 2.5,
    "broker_ctl_lease_remaining_ms": 2500,
    "broker_ctl_session_timeout_ms": 2500,
}
names = pytest.mark.parametrize("name", RENAMED)


def fed(name: str) -> Instrument:
    """The instrument with something to show."""
    (instrument,) = [one for one in Instruments() if one.name == name]
    labels = ["x"] * len(instrument.labels)
    match instrument:
        case Histogram():
            for value in OBSERVED_S:
                instrument.observe(value, *labels)
        case Counter():
            instrument.add(*labels, amount=7)
        case Gauge():
            instrument.bind(lambda: {tuple(labels): 2.5})
    return instrument


def families(instrument: Instrument) -> dict[str, Metric]:
    return {one.name: one for one in InstrumentCollector([instrument], "c").collect()}


@names
def test_a_renamed_metric_is_exposed_under_both_names(name: str) -> None:
    earlier = RENAMED[name]
    found = families(fed(name))
    new, old = (found[each.removesuffix("_total")] for each in (name, earlier.name))
    assert len(found) == 2
    assert old.documentation == f"Deprecated, use {name}. {new.documentation}"
    assert old.type == new.type
    assert [one.name.removeprefix(earlier.name) for one in old.samples] == [
        one.name.removeprefix(name) for one in new.samples
    ]
    for before, now in zip(old.samples, new.samples, strict=True):
        assert before.labels.items() - {("le", before.labels.get("le"))} <= now.labels.items()
        if not now.name.endswith(("_bucket", "_count")):
            assert before.value == pytest.approx(now.value * earlier.factor, rel=1e-12)


def test_every_earlier_name_is_in_the_table() -> None:
    earlier = {one.name for one in RENAMED.values()}
    assert earlier == EARLIER_BOUNDS_MS.keys() | EARLIER_VALUES.keys()


@pytest.mark.parametrize(("earlier", "value"), EARLIER_VALUES.items())
def test_a_renamed_value_is_what_it_was(earlier: str, value: float) -> None:
    (name,) = [new for new, old in RENAMED.items() if old.name == earlier]
    found = families(fed(name))[earlier.removesuffix("_total")].samples
    assert {one.value for one in found if one.name == earlier} >= {value}


@pytest.mark.parametrize(("earlier", "bounds_ms"), EARLIER_BOUNDS_MS.items())
def test_a_histogram_of_milliseconds_is_what_it_was(
    earlier: str, bounds_ms: tuple[int, ...]
) -> None:
    (name,) = [new for new, old in RENAMED.items() if old.name == earlier]
    instrument = fed(name)
    before = Histogram(earlier, "", instrument.labels, bounds=bounds_ms)
    for value in OBSERVED_S:
        before.observe(value * 1000, *["x"] * len(instrument.labels))
    now = [
        (one.name, {k: v for k, v in one.labels.items() if k != "cluster"}, one.value)
        for one in families(instrument)[earlier].samples
    ]
    assert now == [(one.name, dict(one.labels), one.value) for one in before.samples()]


@names
def test_dashboards_and_alerts_have_the_new_name(name: str) -> None:
    shown = [series for _, expression in panels() for series in series_in(expression)]
    shown += [series for _, expression, _ in alerts() for series in series_in(expression)]
    assert not [series for series in shown if series.startswith(RENAMED[name].name)]


def test_our_own_metrics_of_time_are_in_seconds() -> None:
    assert [one.name for one in Instruments() if one.name.endswith("_ms")] == [
        "pulsar_metadata_store_ops_latency_ms",
        "pulsar_batch_metadata_store_queue_wait_time_ms",
        "pulsar_batch_metadata_store_batch_execute_time_ms",
    ]
