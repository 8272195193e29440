"""Scenarios of recorded traffic."""

from collections.abc import Sequence

import numpy as np
import pytest

from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import (
    ScenarioEvent,
    ScenarioEventKind,
    TopicShares,
    Traffic,
)
from broker_ctl.simulation.traces.trace_files import build_trace_scenario

UP, DOWN, DRAIN, CAPACITY = (
    ScenarioEventKind.UP,
    ScenarioEventKind.DOWN,
    ScenarioEventKind.DRAIN,
    ScenarioEventKind.CAPACITY,
)


def traffic(
    bytes_in: Sequence[float], messages_in: Sequence[float] | None = None, bundles: int = 64
) -> Traffic:
    """The given bytes in all, minute by minute, in equal bundles; as much out as in."""
    ring = Ring.even(Namespace("t", "n"), bundles).bundles
    in_all = np.array([messages_in or bytes_in, bytes_in], np.float32) / bundles
    messages, rates = np.repeat(in_all[:, :, None], bundles, axis=2)
    topics = tuple(TopicShares.even(bundle, 4) for bundle in ring)
    return Traffic(ring, topics, messages, messages, rates, rates)


def capacity(recorded: Traffic, brokers: int, *events: ScenarioEvent) -> Capacity:
    return build_trace_scenario("x", recorded, brokers, events).brokers["broker-1"]


def test_brokers_are_equal_and_full_to_55_percent_on_average() -> None:
    built = build_trace_scenario("mine", traffic([100, 300]), 4)
    assert built.name == "mine"
    assert list(built.brokers) == ["broker-1", "broker-2", "broker-3", "broker-4"]
    # 400 bytes a second in and out, on four brokers.
    assert [each.bytes_s for each in built.brokers.values()] == pytest.approx([100 / 0.55] * 4)
    assert (built.absent, built.events) == (frozenset(), ())


def test_messages_fill_a_broker_half_as_much_as_bytes_do() -> None:
    found = capacity(traffic([1000, 1000], [10, 10]), 4)
    assert found.bytes_s == pytest.approx(500 / 0.55)
    assert found.msg_rate == pytest.approx(5 / 0.275)


def test_messages_alone_or_bytes_alone_fill_a_broker_to_55_percent() -> None:
    assert capacity(traffic([0.0, 0.0], [10, 10]), 4).msg_rate == pytest.approx(5 / 0.55)
    assert capacity(traffic([10, 10], [0.0, 0.0]), 4).bytes_s == pytest.approx(5 / 0.55)


@pytest.mark.parametrize(
    ("events", "per_broker"),
    [
        ([ScenarioEvent(2, "broker-4", DOWN)], (2 * 200 / 4 + 2 * 200 / 3) / 4),
        ([ScenarioEvent(1, "broker-4", UP)], (200 / 3 + 3 * 200 / 4) / 4),
        ([ScenarioEvent(2, "broker-4", CAPACITY, 3.0)], (2 * 200 / 4 + 2 * 200 / 6) / 4),
        ([ScenarioEvent(2, "broker-4", DRAIN)], 200 / 4),
        (
            [ScenarioEvent(1, "broker-4", DOWN), ScenarioEvent(2, "broker-4", UP)],
            (3 * 200 / 4 + 200 / 3) / 4,
        ),
        (
            [
                ScenarioEvent(1, "broker-4", DOWN),
                ScenarioEvent(2, "broker-4", CAPACITY, 2.0),
                ScenarioEvent(3, "broker-4", UP),
            ],
            (200 / 4 + 2 * 200 / 3 + 200 / 5) / 4,
        ),
        ([ScenarioEvent(2, f"broker-{number}", DOWN) for number in range(1, 5)], 200 / 4),
        ([ScenarioEvent(4, "broker-4", DOWN)], 200 / 4),
    ],
)
def test_the_capacity_follows_from_the_brokers_that_are_up(
    events: list[ScenarioEvent], per_broker: float
) -> None:
    assert capacity(traffic([100] * 4), 4, *events).bytes_s == pytest.approx(per_broker / 0.55)


def test_minutes_without_any_broker_do_not_count_for_the_capacity() -> None:
    # In floats, 1 - 0.7 - 0.3 is a little more than nothing.
    events = ScenarioEvent(1, "broker-1", CAPACITY, 0.3), ScenarioEvent(2, "broker-1", DOWN)
    found = capacity(traffic([100] * 4), 1, *events).bytes_s
    assert found == pytest.approx((200 + 200 / 0.3) / 2 / 0.55)


def test_owners_are_drawn_among_those_who_are_there_always_the_same() -> None:
    events = [
        ScenarioEvent(3, "broker-2", UP),
        ScenarioEvent(5, "broker-2", DOWN),
        ScenarioEvent(4, "broker-1", DOWN),
    ]
    built = build_trace_scenario("x", traffic([1] * 9), 4, events)
    assert built.absent == {"broker-2"}
    assert set(built.owners) == {"broker-1", "broker-3", "broker-4"}
    assert len(built.owners) == 64
    assert built.owners == build_trace_scenario("y", traffic([2] * 9), 4, events).owners
    assert [event.minute for event in built.events] == [3, 4, 5]


def test_a_broker_that_comes_after_the_end_is_absent_throughout() -> None:
    built = build_trace_scenario("x", traffic([1, 1]), 3, [ScenarioEvent(2, "broker-1", UP)])
    assert built.absent == {"broker-1"}
    assert built.events == ()


@pytest.mark.parametrize(
    ("brokers", "events", "complaint"),
    [
        (0, [], r"0 brokers: 1 to 10000"),
        (10_001, [], r"10001 brokers: 1 to 10000"),
        (
            2,
            [ScenarioEvent(7, "broker-3", DOWN)],
            r"events: down of 'broker-3' at minute 7; the brokers are broker-1 to broker-2",
        ),
        (1, [ScenarioEvent(1, "broker-1", UP)], r"events: no broker is there at the start"),
    ],
)
def test_impossible_brokers_and_events_are_refused(
    brokers: int, events: list[ScenarioEvent], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint):
        build_trace_scenario("x", traffic([1, 1]), brokers, events)


def test_a_trace_without_traffic_is_refused() -> None:
    with pytest.raises(SettingsError, match="no traffic"):
        build_trace_scenario("x", traffic([0, 0]), 2)
