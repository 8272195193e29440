"""What counts as a surge, on readings of one subject."""

import pytest

from broker_ctl.core.cluster.surges import Past, Surge
from broker_ctl.core.machines.surge import TRANSITIONS, SurgeEvent, SurgeState, step
from broker_ctl.core.rules.leader_rules import SurgeRules
from broker_ctl.errors import InvalidTransition

RULES = SurgeRules()


def surges(readings: list[tuple[float, float]]) -> list[float]:
    """Times of the readings ``(time, value)`` that are surges."""
    past: Past | None = None
    found = []
    for now_s, value in readings:
        if past is None:
            past = Past.of(value, now_s)
            continue
        past = past.at(now_s, RULES)
        if past.has_surged(value, RULES):
            found.append(now_s)
            past = past.after_surge(value)
        else:
            past = past.after(value)
    return found


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        pytest.param([(0, 10), (5, 100)], [5], id="at once"),
        pytest.param([(0, 10), (5, 99)], [], id="less than tenfold"),
        pytest.param([(0, 10), (15, 20), (30, 40), (45, 80), (59, 100)], [59], id="in a minute"),
        pytest.param([(60.0 * k, 10 * 1.5**k) for k in range(12)], [], id="half again each minute"),
        pytest.param([(0, 10), (900, 100)], [900], id="after a quiet quarter of an hour"),
        pytest.param([(0, 100), (70, 100), (75, 0), (80, 100)], [], id="back after a move"),
        pytest.param([(0, 100), (5, 0), (10, 100)], [], id="back after a move, just seen"),
        pytest.param([(0, 10), (5, 100), (10, 100), (65, 100), (130, 100)], [5], id="once only"),
        pytest.param([(0, 10), (5, 100), (10, 5), (15, 100)], [5], id="flapping is one surge"),
        pytest.param([(0, 10), (5, 100), (10, 300)], [5, 10], id="and again as much"),
        pytest.param([(0, 0), (5, 100)], [5], id="from nothing"),
    ],
)
def test_a_surge_is_tenfold_growth_within_a_minute_to_what_was_not_seen_before(
    readings: list[tuple[float, float]], expected: list[float]
) -> None:
    assert surges(readings) == expected


def test_a_surge_goes_from_risen_to_followed_to_over() -> None:
    surge = Surge(1e6, 2e7, 100.0)
    followed = surge.after(SurgeEvent.PLANNED)
    assert followed is not None
    assert followed.state is SurgeState.FOLLOWED
    assert followed.after(SurgeEvent.LAPSED) is None
    assert surge.event_of(0.9e7) is SurgeEvent.FELL
    assert surge.event_of(1.1e7) is None
    assert surge.text == "it grew from 976.6 KiB/s to 19.1 MiB/s within a minute or two"


def test_what_has_no_row_in_the_table_is_refused() -> None:
    assert {state for state, _ in TRANSITIONS} == {SurgeState.RISEN, SurgeState.FOLLOWED}
    with pytest.raises(InvalidTransition):
        step(SurgeState.OVER, SurgeEvent.GREW)
