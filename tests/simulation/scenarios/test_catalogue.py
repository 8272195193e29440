"""The named scenarios as a whole."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.scenario import Scenario, ScenarioEventKind
from broker_ctl.simulation.scenarios import NAMES, is_daily, scenario

TRAFFIC = ("msg_rate_in", "msg_rate_out", "bytes_in", "bytes_out")
# In these, half of the brokers carry everything at one time.
HALVED = ("scale-out", "scale-in")


@cache
def usual(name: str) -> Scenario:
    """A scenario with the default numbers of brokers and hours."""
    return scenario(name)


def loads(played: Scenario) -> NDArray[np.float64]:
    """Bytes a second, in and out; (minutes, bundles)."""
    return played.traffic.bytes_in.astype(np.float64) + played.traffic.bytes_out


def capacity(played: Scenario) -> float:
    """Bytes a second of the brokers that are meant to carry the traffic."""
    total = sum(each.bytes_s for each in played.brokers.values())
    return total / 2 if played.name in HALVED else total


def test_there_are_twelve() -> None:
    assert NAMES == (
        "steady-skew",
        "diurnal",
        "flash-crowd",
        "giant-bundle",
        "giant-topic",
        "broker-death",
        "rolling-restart",
        "scale-out",
        "scale-in",
        "mixed-hardware",
        "tenant-onboarding",
        "flapping-consumers",
    )


def test_a_day_says_something_of_the_next_where_nothing_happens_once_only() -> None:
    assert {name for name in NAMES if not is_daily(name)} == {
        "broker-death",
        "rolling-restart",
        "scale-out",
        "scale-in",
        "tenant-onboarding",
    }


@pytest.mark.parametrize("name", NAMES)
def test_equal_arguments_give_equal_scenarios_to_the_bit(name: str) -> None:
    one, other = usual(name), scenario(name)
    assert (one.name, one.brokers, one.owners) == (name, other.brokers, other.owners)
    assert (one.absent, one.events) == (other.absent, other.events)
    assert one.traffic.bundles == other.traffic.bundles
    assert one.traffic.topics == other.traffic.topics
    for column in TRAFFIC:
        values = getattr(one.traffic, column)
        assert values.dtype == np.float32
        assert values.tobytes() == getattr(other.traffic, column).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_another_scenario(name: str) -> None:
    one, other = scenario(name, hours=1, seed=70), scenario(name, hours=1, seed=71)
    assert one.owners != other.owners
    assert not np.array_equal(one.traffic.bytes_in, other.traffic.bytes_in)


def test_no_two_scenarios_are_drawn_from_one_seed() -> None:
    assert len({scenario(name, hours=1).owners for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_ten_brokers_with_fifty_bundles_each_for_a_day_of_minutes(name: str) -> None:
    played = usual(name)
    assert list(played.brokers) == [f"broker-{number}" for number in range(1, 11)]
    assert len(played.owners) == len(played.traffic.bundles) == len(played.traffic.topics) == 500
    for column in TRAFFIC:
        values = getattr(played.traffic, column)
        assert values.shape == (1440, 500)
        assert np.isfinite(values).all()
        assert values.min() >= 0


@pytest.mark.parametrize("hours", [24, 48])
@pytest.mark.parametrize("name", NAMES)
def test_a_mean_broker_carries_300_megabytes_at_55_percent(name: str, hours: int) -> None:
    played = scenario(name, hours=hours)
    total = loads(played).sum(axis=1)
    assert played.traffic.minutes == hours * 60
    assert total.mean() / capacity(played) == pytest.approx(0.55, rel=1e-4)
    brokers = 5 if name in HALVED else 10
    assert total.mean() / brokers == pytest.approx(300e6, rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_brokers_that_are_up_could_always_carry_the_traffic(name: str) -> None:
    played = usual(name)
    here = {broker_id for broker_id in played.brokers if broker_id not in played.absent}
    factors = dict.fromkeys(played.brokers, 1.0)
    total = loads(played).sum(axis=1)
    events = list(played.events)
    for minute in range(played.traffic.minutes):
        while events and events[0].minute == minute:
            event = events.pop(0)
            if event.kind is ScenarioEventKind.CAPACITY:
                factors[event.broker_id] = event.factor
            elif event.kind is ScenarioEventKind.UP:
                here.add(event.broker_id)
            else:
                here.discard(event.broker_id)
        room = sum(played.brokers[each].bytes_s * factors[each] for each in here)
        assert total[minute] / room < 0.85


@pytest.mark.parametrize("name", NAMES)
def test_nearly_all_bundles_fill_a_broker_with_bytes_before_messages(name: str) -> None:
    played = usual(name)
    room = played.brokers["broker-1"]
    messages = played.traffic.msg_rate_in.mean(axis=0) + played.traffic.msg_rate_out.mean(axis=0)
    has_small = messages / room.msg_rate > loads(played).mean(axis=0) / room.bytes_s
    assert has_small.mean() < 0.02


@pytest.mark.parametrize("name", NAMES)
def test_owners_are_brokers_that_are_there(name: str) -> None:
    played = usual(name)
    assert set(played.owners) == set(played.brokers) - played.absent


@pytest.mark.parametrize("name", NAMES)
def test_only_events_that_fit_the_state_of_a_broker_happen_to_it(name: str) -> None:
    played = scenario(name, hours=48)
    last = dict.fromkeys(played.brokers, ScenarioEventKind.UP)
    last.update(dict.fromkeys(played.absent, ScenarioEventKind.DOWN))
    before = {
        ScenarioEventKind.UP: {ScenarioEventKind.DOWN},
        ScenarioEventKind.DRAIN: {ScenarioEventKind.UP},
        ScenarioEventKind.DOWN: {ScenarioEventKind.UP, ScenarioEventKind.DRAIN},
    }
    assert [event.minute for event in played.events] == sorted(e.minute for e in played.events)
    for event in played.events:
        assert 0 < event.minute < played.traffic.minutes
        if event.kind is not ScenarioEventKind.CAPACITY:
            assert last[event.broker_id] in before[event.kind]
            last[event.broker_id] = event.kind


def test_events_after_the_end_are_left_out() -> None:
    assert scenario("broker-death", hours=5).events == ()
    assert len(scenario("broker-death", hours=6).events) == 1


@pytest.mark.parametrize("brokers", [2, 3, 25])
@pytest.mark.parametrize("name", NAMES)
def test_there_are_as_many_brokers_as_asked(name: str, brokers: int) -> None:
    played = scenario(name, brokers=brokers, hours=2)
    assert len(played.brokers) == brokers
    assert len(played.traffic.bundles) == 50 * brokers


def test_a_second_day_has_the_same_people_in_it() -> None:
    one, two = usual("diurnal"), scenario("diurnal", hours=48)
    assert one.traffic.bundles == two.traffic.bundles
    assert one.traffic.topics == two.traffic.topics
    assert one.owners == two.owners
    days = loads(two)[:1440].mean(axis=0), loads(two)[1440:].mean(axis=0)
    assert np.corrcoef(*days)[0, 1] > 0.95


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda: scenario("steady"), r"scenario 'steady': one of steady-skew, diurnal, "),
        (lambda: is_daily(""), r"scenario '': one of steady-skew"),
        (lambda: scenario("diurnal", hours=0), r"scenario diurnal: 0 hours; 1 to 336"),
        (lambda: scenario("diurnal", hours=337), r"337 hours; 1 to 336"),
        (lambda: scenario("diurnal", brokers=1), r"1 brokers; 2 to 222 for 24 hours"),
        (lambda: scenario("diurnal", brokers=223), r"223 brokers; 2 to 222 for 24 hours"),
        (lambda: scenario("diurnal", seed=-1), r"scenario diurnal: seed -1; 0 or more"),
    ],
)
def test_an_unknown_scenario_or_size_is_refused(ask: Callable[[], object], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        ask()
