"""Metrics of what clients may take at most; every bound has its series here."""

from collections.abc import Callable
from typing import Final

from broker_ctl.instruments.kinds import Gauge, Total

_LABELS: Final = ("bound",)


class BoundInstruments:
    """Bounds of connections, requests, streams, handshakes, bodies and rates."""

    def __init__(self) -> None:
        self.used = Gauge(
            "broker_ctl_bound_used",
            "What is taken of a bound now: connections, requests, streams, handshakes or forms; of "
            "http-body-bytes the bytes of the largest body that is being read; of a rate the "
            "requests that the fullest bucket holds.",
            _LABELS,
        )
        self.limit = Gauge(
            "broker_ctl_bound_limit",
            "At how much a bound refuses; +Inf: never. One address or role may have less.",
            _LABELS,
        )
        self.refused = Total(
            "broker_ctl_bound_refused_total",
            "What a bound refused, or closed to make room; also where one address or role had more "
            "than its part of it.",
            _LABELS,
        )

    def follow(
        self,
        bound: str,
        *,
        used: Callable[[], float],
        limit: Callable[[], float],
        refused: Callable[[], float],
    ) -> None:
        """Show a bound under this name."""
        self.used.bind(lambda: {(bound,): used()})
        self.limit.bind(lambda: {(bound,): limit()})
        self.refused.bind(lambda: {(bound,): refused()})
