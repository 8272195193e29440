"""Times of the past on the command line."""

import click
import pytest

from broker_ctl.cli.runtime.output import PastTime
from broker_ctl.clock import SystemClock


def of(text: str) -> int:
    return PastTime().convert(text, None, None)


def test_a_point_in_time_has_a_zone_or_is_local() -> None:
    assert of("2030-01-31T03:00Z") == 1_896_058_800_000
    assert of("2030-01-31T03:00+01:00") == 1_896_058_800_000 - 3_600_000
    assert abs(of("2030-01-31T03:00") - 1_896_058_800_000) <= 14 * 3_600_000


@pytest.mark.parametrize(
    ("text", "age_s"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86400)]
)
def test_a_duration_is_that_long_ago(text: str, age_s: int) -> None:
    before_ms = SystemClock().wall_ms()
    at_ms = of(text)
    assert before_ms <= at_ms + age_s * 1000 <= SystemClock().wall_ms()


@pytest.mark.parametrize("text", ["", "soon", "0s", "-1h", "+2h", "25:00", "1969-12-31T00:00Z"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2030-01-31T02:00Z, 90s"):
        of(text)
