"""Ranges of the day, over midnight and joined."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.rules.limits import QuietHours
from broker_ctl.settings.values import Parsed

DAY_MS: Final = 24 * 3600 * 1000
# A day in 2026, at midnight.
MIDNIGHT_MS: Final = 20_500 * DAY_MS
NIGHT_AND_NOON: Final = QuietHours.parse("22:00-06:00,12:00-13:00")


def at(time: str) -> int:
    hours, minutes, seconds = (int(part) for part in time.split(":"))
    return MIDNIGHT_MS + ((hours * 60 + minutes) * 60 + seconds) * 1000


@pytest.mark.parametrize(
    ("time", "ends_in_s"),
    [
        ("21:59:59", 0),
        ("22:00:00", 8 * 3600),
        ("23:30:00", 6.5 * 3600),
        ("00:00:00", 6 * 3600),
        ("05:59:59", 1),
        ("06:00:00", 0),
        ("11:59:59", 0),
        ("12:00:00", 3600),
        ("12:59:30", 30),
        ("13:00:00", 0),
    ],
)
def test_a_range_contains_its_start_and_not_its_end(time: str, ends_in_s: float) -> None:
    assert NIGHT_AND_NOON.is_quiet(at(time)) is (ends_in_s > 0)
    assert NIGHT_AND_NOON.ends_in_s(at(time)) == ends_in_s


def test_without_ranges_it_is_never_quiet() -> None:
    for text in ("", "  "):
        none = QuietHours.parse(text)
        assert none == QuietHours()
        assert not none.is_quiet(at("03:00:00"))
        assert none.ends_in_s(at("03:00:00")) == 0
        assert str(none) == ""


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("22:00-06:00", "22:00-06:00"),
        (" 12:00 - 13:00 , 01:00-02:00 ", "01:00-02:00,12:00-13:00"),
        ("22:00-24:00,00:00-06:00", "22:00-06:00"),
        ("22:00-00:00", "22:00-00:00"),
        ("22:00-24:00", "22:00-00:00"),
        ("00:00-06:00", "00:00-06:00"),
        ("01:00-03:00,02:00-04:00,04:00-05:00", "01:00-05:00"),
        ("01:00-05:00,02:00-03:00", "01:00-05:00"),
        ("00:01-00:00", "00:01-00:00"),
    ],
)
def test_adjacent_and_overlapping_ranges_become_one(text: str, canonical: str) -> None:
    assert str(QuietHours.parse(text)) == canonical


def test_touching_ranges_end_together() -> None:
    joined = QuietHours.parse("22:00-24:00,00:00-06:00,06:00-07:00")
    assert joined.ends_in_s(at("23:00:00")) == 8 * 3600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("22-06", "'22-06' is not a range like 22:00-06:00"),
        ("22:00-06:00,", "'' is not a range like 22:00-06:00"),
        ("9:00-10:00", "'9:00-10:00' is not a range like 22:00-06:00"),
        ("22:00-06:00-07:00", "'22:00-06:00-07:00' is not a range like 22:00-06:00"),
        ("٢٢:00-06:00", "'٢٢:00-06:00' is not a range like 22:00-06:00"),
        ("24:00-06:00", "24:00 is not a time from 00:00 to 23:59"),
        ("22:00-24:01", "24:01 is not a time from 00:00 to 24:00"),
        ("22:60-23:00", "22:60 is not a time from 00:00 to 23:59"),
        (
            "06:00-06:00",
            "'06:00-06:00' starts where it ends: to be quiet for good, disable balancing",
        ),
        (
            "00:00-24:00",
            "no time of the day is left: to be quiet for good, disable balancing",
        ),
        (
            "06:00-18:00,18:00-06:00",
            "no time of the day is left: to be quiet for good, disable balancing",
        ),
        (",".join(["01:00-02:00"] * 25), "25 ranges, at most 24"),
        ("x" * 1000, f"{'x' * 40!r} is not a range like 22:00-06:00"),
    ],
)
def test_a_text_that_is_not_a_range_is_refused_with_what_is_allowed(
    text: str, message: str
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  the whole message is compared
        QuietHours.parse(text)
    assert str(refused.value) == message


def test_the_detail_has_the_range_and_how_long_it_lasts() -> None:
    assert NIGHT_AND_NOON.detail(at("05:18:30")) == (
        "22:00-06:00 UTC is quiet, for 42 min more (loadBalancerQuietHours)"
    )
    assert NIGHT_AND_NOON.detail(at("12:59:59")) == (
        "12:00-13:00 UTC is quiet, for 1 min more (loadBalancerQuietHours)"
    )
    assert NIGHT_AND_NOON.detail(at("14:00:00")) == "it is not quiet"


def test_a_setting_may_have_this_type() -> None:
    assert isinstance(QuietHours(), Parsed)


minutes = st.integers(0, 24 * 60 - 1)
ranges = st.lists(st.tuples(minutes, minutes).filter(lambda ends: ends[0] != ends[1]), max_size=6)


def text_of(ends: tuple[int, int]) -> str:
    return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in ends)


def is_within(minute: int, ends: tuple[int, int]) -> bool:
    start, end = ends
    return start <= minute < end if start < end else minute >= start or minute < end


def is_all_day(given_ranges: list[tuple[int, int]]) -> bool:
    return all(any(is_within(m, ends) for ends in given_ranges) for m in range(24 * 60))


@given(ranges, minutes, st.integers(0, 59_999), st.integers(-3, 30_000))
def test_quiet_hours_last_through_ranges_that_follow_each_other(
    given_ranges: list[tuple[int, int]], minute: int, more_ms: int, day: int
) -> None:
    if is_all_day(given_ranges):
        return
    quiet = QuietHours.parse(",".join(text_of(ends) for ends in given_ranges))
    wall_ms = day * DAY_MS + minute * 60_000 + more_ms
    expected = any(is_within(minute, ends) for ends in given_ranges)
    assert quiet.is_quiet(wall_ms) is expected
    left_ms = quiet.ends_in_s(wall_ms) * 1000
    assert (left_ms > 0) is expected
    if expected:
        assert left_ms < DAY_MS
        assert quiet.is_quiet(wall_ms + left_ms - 1)
        assert not quiet.is_quiet(round(wall_ms + left_ms))


@given(ranges)
def test_quiet_hours_are_parsed_from_their_text_unchanged(
    given_ranges: list[tuple[int, int]],
) -> None:
    text = ",".join(text_of(ends) for ends in given_ranges)
    if is_all_day(given_ranges):
        with pytest.raises(ValueError, match="no time of the day is left"):
            QuietHours.parse(text)
        return
    quiet = QuietHours.parse(text)
    assert QuietHours.parse(str(quiet)) == quiet
    assert QuietHours.parse(",".join(text_of(ends) for ends in reversed(given_ranges))) == quiet
