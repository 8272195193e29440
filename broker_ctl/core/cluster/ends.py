"""When what holds a decision back ends, for people."""

from math import ceil, fsum
from typing import Final

from broker_ctl.core.cluster.view import ClusterView

REST_KEY: Final = "loadBalancerSheddingGracePeriodMinutes"
_HOUR_S: Final = 3600.0
_MINUTE_MS: Final = 60_000
_HOUR_MINUTES: Final = 60
_DAY_MINUTES: Final = 24 * 60


def until_text(view: ClusterView, at_s: float) -> str:
    """``until 10:42 UTC`` for a time on the clock of the view; a view without a date: how long."""
    left_s = max(0.0, at_s - view.taken_at_s)
    if not view.taken_at_ms:
        return f"for {ceil(left_s / 60)} min more"
    # Rounded up: at the minute that is named it has ended.
    minutes = ceil((view.taken_at_ms + left_s * 1000) / _MINUTE_MS) % _DAY_MINUTES
    hours, minutes = divmod(minutes, _HOUR_MINUTES)
    return f"until {hours:02}:{minutes:02} UTC"


def rest_text(view: ClusterView, at_s: float) -> str:
    """``rests until 10:42 UTC, loadBalancerSheddingGracePeriodMinutes``."""
    return f"rests {until_text(view, at_s)}, {REST_KEY}"


def room_text(view: ClusterView, excess_bytes: float) -> str:
    """When as many bytes/s have left the hour that counts: the oldest moves leave first."""
    for past in sorted(view.settled, key=lambda each: each.at_s):
        excess_bytes = fsum((excess_bytes, -past.throughput_bytes))
        if excess_bytes <= 0:
            return until_text(view, past.at_s + _HOUR_S)
    return "until an hour after the moves of now"
