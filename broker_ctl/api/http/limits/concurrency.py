"""Limits of the number of requests in progress."""

from typing import Final, Self

from aiohttp import web

from broker_ctl.api.http.access.rules import Access, Exempt
from broker_ctl.api.http.responses import ApiError
from broker_ctl.instruments.bounds import BoundInstruments

# Pulsar's clients give a lookup up after 30 s. Actions have shorter deadlines of their own: this
# limit only ends requests that hang. The action itself goes on.
_READ_LIMIT_S: Final = 30.0
_ACTION_LIMIT_S: Final = 300.0
_READS: Final = frozenset({"GET", "HEAD"})
_CLIENT_PATHS: Final = ("/lookup/", "/admin/", "/partitions/")
# The updates of pages have a limit of their own, well below this one.
_MOST_OF_CONSOLE: Final = 256


class ConcurrencyLimit:
    """At most ``limit`` at a time; any further one is rejected, never queued.

    The limit is its own context manager: a lookup passes two limits and lasts some 50 us in all.

    Attributes:
        refused: how many were rejected so far.
    """

    def __init__(self, subject: str, limit: int) -> None:
        self._subject = subject
        self.limit = limit
        self.in_flight = 0
        self.refused = 0

    def show(self, bounds: BoundInstruments, name: str) -> None:
        """Show it under this name."""
        bounds.follow(
            name,
            used=lambda: self.in_flight,
            limit=lambda: self.limit,
            refused=lambda: self.refused,
        )

    def held(self) -> Self:
        """Count one for the duration of the block.

        Raises:
            ApiError: 503, the limit is reached.
        """
        return self

    def __enter__(self) -> None:
        if self.in_flight >= self.limit:
            self.refused += 1
            raise ApiError(503, f"{self.limit} {self._subject} are in progress", kind="Busy")
        self.in_flight += 1

    def __exit__(self, *_: object) -> None:
        self.in_flight -= 1


class RequestClasses:
    """Limits of requests in progress, so that those of one kind never block those of another.

    A request has no place before it is known who sends it. The exceptions are what is open to
    everybody: health, metrics and the lease of the broker process, which are answered without
    waiting for anything, and the console, which waits for its own requests to the API.
    """

    def __init__(self, limit: int) -> None:
        self.clients = ConcurrencyLimit("requests of clients", limit)
        self.brokers = ConcurrencyLimit("requests", limit)
        self.probes = ConcurrencyLimit("probes", limit)
        self.console = ConcurrencyLimit("requests to the console", min(limit, _MOST_OF_CONSOLE))
        self._of_exempt = {
            Exempt.HEALTH: self.probes,
            Exempt.METRICS: self.probes,
            Exempt.DATA_PLANE: self.probes,
            Exempt.CONSOLE: self.console,
        }
        self.is_closed = False

    @property
    def by_name(self) -> dict[str, ConcurrencyLimit]:
        """The limits, by the names that metrics have for them."""
        return {
            "clients": self.clients,
            "brokers": self.brokers,
            "probes": self.probes,
            "console": self.console,
        }

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return sum(limit.in_flight for limit in self.by_name.values())

    def close(self) -> None:
        """Reject all further requests."""
        self.is_closed = True

    def of(self, request: web.Request, access: Access) -> tuple[ConcurrencyLimit, float]:
        """The limit that counts a request, and its maximum duration in seconds.

        Raises:
            ApiError: 503, the broker is shutting down.
        """
        if self.is_closed:
            raise ApiError(503, "this broker is shutting down", kind="Draining")
        limit_s = _READ_LIMIT_S if request.method in _READS else _ACTION_LIMIT_S
        # Most requests are of clients, by a rule.
        limit = None if access.__class__ is not Exempt else self._of_exempt.get(access)
        if limit is None:
            # The path that was matched with the routes.
            is_client = request.rel_url.path_safe.startswith(_CLIENT_PATHS)
            limit = self.clients if is_client else self.brokers
        return limit, limit_s
