"""Times and durations on the command line."""

import re
from datetime import datetime
from typing import Any, Final

import click

from broker_ctl.clock import SystemClock

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d{1,6})([smhd])")


def _seconds(text: str) -> float | None:
    """The seconds of a duration above 0; None: not a duration."""
    found = _DURATION.fullmatch(text)
    if found is None or int(found[1]) == 0:
        return None
    return float(int(found[1]) * _UNITS[found[2]])


def _dated(text: str) -> int | None:
    """The ms since 1970 of a date and time; None: it is none."""
    try:
        # A time without a zone is local, as `at` and `systemd-run` have it.
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


class PastTime(click.ParamType[int]):
    """A date and time (ISO 8601, local unless it names a zone), or ``2h`` ago.

    In ms since 1970.
    """

    name = "past time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """In ms since 1970."""
        text = str(value)
        if (seconds := _seconds(text)) is not None:
            return SystemClock().wall_ms() - round(seconds * 1000)
        at_ms = _dated(text)
        if at_ms is None or at_ms <= 0:
            examples = "2030-01-31T02:00, 2030-01-31T02:00Z, 90s, 15m, 2h or 1d"
            self.fail(f"{value!r} is not a time such as {examples}", param, ctx)
        return at_ms


class Time(click.ParamType[int]):
    """A date and time (ISO 8601, local unless it names a zone), or ``+2h`` from now.

    In ms since 1970.
    """

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """In ms since 1970."""
        text = str(value)
        if text.startswith("+") and (seconds := _seconds(text[1:])) is not None:
            return SystemClock().wall_ms() + round(seconds * 1000)
        at_ms = _dated(text)
        if at_ms is None:
            self.fail(
                f"{value!r} is not a time such as 2030-01-31T02:00, 2030-01-31T02:00Z or +2h",
                param,
                ctx,
            )
        return at_ms
