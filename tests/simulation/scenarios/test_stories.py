"""What happens in each of the named scenarios."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from broker_ctl.simulation.model.scenario import Scenario, ScenarioEvent, ScenarioEventKind
from broker_ctl.simulation.scenarios import scenario

UP, DOWN, DRAIN, CAPACITY = (
    ScenarioEventKind.UP,
    ScenarioEventKind.DOWN,
    ScenarioEventKind.DRAIN,
    ScenarioEventKind.CAPACITY,
)
HOUR = 60


def loads(played: Scenario) -> NDArray[np.float64]:
    """Bytes a second, in and out; (minutes, bundles)."""
    return played.traffic.bytes_in.astype(np.float64) + played.traffic.bytes_out


def by_broker(played: Scenario) -> NDArray[np.float64]:
    """Usage of each broker if nothing moves; (minutes, brokers)."""
    owners = np.array(played.owners)
    usage = [
        loads(played)[:, owners == broker_id].sum(axis=1) / capacity.bytes_s
        for broker_id, capacity in played.brokers.items()
    ]
    return np.stack(usage, axis=1)


def by_tenant(played: Scenario) -> dict[str, NDArray[np.float64]]:
    tenants = np.array([bundle.namespace.tenant for bundle in played.traffic.bundles])
    return {
        str(tenant): loads(played)[:, tenants == tenant].sum(axis=1)
        for tenant in np.unique(tenants)
    }


def story(played: Scenario) -> list[tuple[int, str, ScenarioEventKind]]:
    return [(event.minute, event.broker_id, event.kind) for event in played.events]


def waves(played: Scenario) -> NDArray[np.float64]:
    """The daily wave of each bundle: amplitude and phase as one complex number."""
    turn = np.exp(-2j * np.pi * np.arange(played.traffic.minutes) / (24 * HOUR))
    level = loads(played) / loads(played).mean(axis=0)
    found: NDArray[np.float64] = 2 * (level * turn[:, None]).mean(axis=0)
    return found


def test_steady_skew_begins_with_some_brokers_much_fuller_and_has_no_day() -> None:
    played = scenario("steady-skew")
    start = np.sort(by_broker(played)[0])
    assert start[-1] > 3 * start[0]
    assert start[-1] > 1.7 * start.mean()
    # What the noise leaves of a wave.
    assert np.median(abs(waves(played))) < 0.07
    assert played.events == ()


def test_steady_skew_has_no_bursts() -> None:
    level = loads(scenario("steady-skew"))
    assert (level.max(axis=0) / level.mean(axis=0)).max() < 2


@pytest.mark.parametrize("name", ["diurnal", "broker-death", "flapping-consumers"])
def test_all_others_have_bursts(name: str) -> None:
    rates = scenario(name).traffic.bytes_in
    # Noise alone changes a bundle by a few percent a minute.
    assert (rates[1:] / rates[:-1]).max() > 2


def test_diurnal_swings_by_0_35_in_three_regions() -> None:
    played = scenario("diurnal")
    found = waves(played)
    assert abs(found).mean() == pytest.approx(0.35, abs=0.02)
    assert abs(found).std() == pytest.approx(0.12, abs=0.03)
    # A sine that begins at 0 has its maximum after a quarter of a day.
    peaks = (-np.angle(found) / (2 * np.pi) * 24) % 24
    has_wave = abs(found) > 0.2
    regions = Counter(np.rint((peaks[has_wave] - 6) / 8).astype(int) % 3)
    assert min(regions.values()) > 80
    near = abs((peaks[has_wave] - 6 + 4) % 8 - 4)
    assert np.median(near) < 0.7


def test_a_flash_crowd_is_four_times_the_traffic_for_one_to_two_hours_twice_a_day() -> None:
    played = scenario("flash-crowd", hours=48)
    crowded = {}
    for tenant, load in by_tenant(played).items():
        # Four times, at the lowest of its day.
        is_crowded = load > 1.8 * np.median(load)
        if is_crowded.sum() > 60:
            turns = np.flatnonzero(np.diff(is_crowded.astype(int)))
            assert all(60 <= stay <= 125 for stay in turns[1::2] - turns[::2])
            before, within = turns[0] - 30, turns[0] + 10
            factor = load[within : within + 20].mean() / load[before : before + 20].mean()
            assert factor == pytest.approx(4, abs=0.5)
            crowded[tenant] = turns
    starts = sorted(int(changes[0]) // HOUR for changes in crowded.values())
    assert set(starts) == {9, 19}
    for changes in crowded.values():
        assert len(changes) == 4
        assert changes[2] - changes[0] == pytest.approx(24 * HOUR, abs=20)


def test_the_giant_bundle_carries_60_to_80_percent_of_a_mean_broker_in_many_even_topics() -> None:
    played = scenario("giant-bundle")
    share = loads(played).mean(axis=0) / 300e6
    giant = int(share.argmax())
    assert share[giant] == pytest.approx(0.7, abs=0.03)
    assert abs(waves(played)[giant]) < 0.2
    assert sorted(share)[-2] < 0.4
    topics = played.traffic.topics[giant]
    assert len(topics.shares) == 240
    assert len(set(topics.shares)) == 1
    span = played.traffic.bundles[giant].range
    steps = np.diff([span.low, *topics.positions, span.high])
    assert steps[1:-1] == pytest.approx(steps[1], abs=1)


def test_the_giant_topic_carries_half_of_a_mean_broker_among_others() -> None:
    played = scenario("giant-topic")
    share = loads(played).mean(axis=0) / 300e6
    giant = int(share.argmax())
    topics = played.traffic.topics[giant]
    assert share[giant] * max(topics.shares) == pytest.approx(0.5, abs=0.05)
    assert share[giant] * (1 - max(topics.shares)) == pytest.approx(0.1, abs=0.02)
    assert abs(waves(played)[giant]) < 0.2
    assert sum(topics.shares) == pytest.approx(1)
    index = topics.shares.index(max(topics.shares))
    assert 0 < index < len(topics.shares) - 1


def test_two_brokers_die_and_come_back_hours_later() -> None:
    assert story(scenario("broker-death")) == [
        (5 * HOUR, "broker-2", DOWN),
        (9 * HOUR, "broker-2", UP),
        (14 * HOUR, "broker-3", DOWN),
        (18 * HOUR, "broker-3", UP),
    ]


def test_a_rolling_restart_takes_one_broker_after_another_once() -> None:
    events = story(scenario("rolling-restart", hours=48))
    assert events[:6] == [
        (480, "broker-1", DRAIN),
        (482, "broker-1", DOWN),
        (485, "broker-1", UP),
        (495, "broker-2", DRAIN),
        (497, "broker-2", DOWN),
        (500, "broker-2", UP),
    ]
    assert len(events) == 30
    assert events[-1] == (485 + 9 * 15, "broker-10", UP)


def test_scaling_out_brings_the_other_half_at_once() -> None:
    played = scenario("scale-out")
    coming = [f"broker-{number}" for number in range(6, 11)]
    assert played.absent == set(coming)
    assert story(played) == [(6 * HOUR, broker_id, UP) for broker_id in coming]


def test_scaling_in_drains_one_after_another_and_stops_each_half_an_hour_later() -> None:
    events = story(scenario("scale-in"))
    drains = [(minute, who) for minute, who, kind in events if kind is DRAIN]
    stops = [(minute, who) for minute, who, kind in events if kind is DOWN]
    assert drains == [(360 + 5 * index, f"broker-{6 + index}") for index in range(5)]
    assert stops == [(minute + 30, who) for minute, who in drains]
    assert len(events) == 10


def test_mixed_hardware_has_owners_that_do_not_know_of_it() -> None:
    played = scenario("mixed-hardware")
    usual = played.brokers["broker-1"]
    factors = [capacity.bytes_s / usual.bytes_s for capacity in played.brokers.values()]
    assert Counter(factors) == {1.0: 5, 2.0: 3, 0.5: 2}
    assert all(
        capacity.msg_rate / usual.msg_rate == factor
        for capacity, factor in zip(played.brokers.values(), factors, strict=True)
    )
    usage = by_broker(played).mean(axis=0)
    small = [use for use, factor in zip(usage, factors, strict=True) if factor == 0.5]
    large = [use for use, factor in zip(usage, factors, strict=True) if factor == 2.0]
    assert min(small) > 2 * max(large)


def test_each_noon_a_large_broker_loses_30_percent_for_four_hours() -> None:
    assert scenario("mixed-hardware", hours=48).events == (
        ScenarioEvent(12 * HOUR, "broker-2", CAPACITY, 0.7),
        ScenarioEvent(16 * HOUR, "broker-2", CAPACITY, 1.0),
        ScenarioEvent(36 * HOUR, "broker-2", CAPACITY, 0.7),
        ScenarioEvent(40 * HOUR, "broker-2", CAPACITY, 1.0),
    )


def test_tenants_move_in_within_half_an_hour_and_one_group_leaves() -> None:
    played = scenario("tenant-onboarding")
    mean = loads(played).sum(axis=1).mean()
    changed = {6: 0.0, 13: 0.0, 18: 0.0}
    for load in by_tenant(played).values():
        for hour in changed:
            before, after = load[hour * HOUR - 30], load[hour * HOUR + 45]
            if not 0.2 < after / before < 5:
                changed[hour] += (after - before) / mean
    assert changed[6] == pytest.approx(0.13, abs=0.06)
    assert changed[13] == pytest.approx(0.13, abs=0.06)
    assert changed[18] == pytest.approx(-0.1, abs=0.06)


def test_consumers_of_a_third_of_the_bundles_come_and_go_every_few_minutes() -> None:
    played = scenario("flapping-consumers")
    is_silent = played.traffic.bytes_out == 0
    flapping = is_silent.any(axis=0)
    assert flapping.sum() == 500 // 3
    assert is_silent[:, flapping].mean() == pytest.approx(0.5, abs=0.02)
    assert ((played.traffic.msg_rate_out == 0) == is_silent).all()
    assert (played.traffic.bytes_in > 0).all()
    turns = np.diff(is_silent[:, flapping].astype(int), axis=0) != 0
    assert 1440 / turns.sum(axis=0).mean() == pytest.approx(11.5, abs=0.5)
