"""Limits of the number of requests in progress."""

from typing import Final, Self

from aiohttp import web

from broker_ctl.api.http.responses import ApiError

# Pulsar's clients give a lookup up after 30 s. Actions have shorter deadlines of their own: this
# limit only ends requests that hang. The action itself goes on.
_READ_LIMIT_S: Final = 30.0
_ACTION_LIMIT_S: Final = 300.0
_READS: Final = frozenset({"GET", "HEAD"})
_CLIENT_PATHS: Final = ("/lookup/", "/admin/", "/partitions/")


class ConcurrencyLimit:
    """At most ``limit`` at a time; any further one is rejected, never queued.

    The limit is its own context manager: a lookup passes two limits and lasts some 50 us in all.
    """

    def __init__(self, subject: str, limit: int) -> None:
        self._subject = subject
        self.limit = limit
        self.in_flight = 0

    def held(self) -> Self:
        """Count one for the duration of the block.

        Raises:
            ApiError: 503, the limit is reached.
        """
        return self

    def __enter__(self) -> None:
        if self.in_flight >= self.limit:
            raise ApiError(503, f"{self.limit} {self._subject} are in progress", kind="Busy")
        self.in_flight += 1

    def __exit__(self, *_: object) -> None:
        self.in_flight -= 1


class RequestClasses:
    """Two limits of the same size: one for clients, one for all other requests.

    A flood of clients cannot block the leader's commands, the broker process's reads of its
    authority, or operators who look for the cause.
    """

    def __init__(self, limit: int) -> None:
        self.clients = ConcurrencyLimit("requests of clients", limit)
        self.brokers = ConcurrencyLimit("requests", limit)
        self.is_closed = False

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return self.clients.in_flight + self.brokers.in_flight

    def close(self) -> None:
        """Reject all further requests."""
        self.is_closed = True

    def of(self, request: web.Request) -> tuple[ConcurrencyLimit, float]:
        """The limit that counts a request, and its maximum duration in seconds.

        Raises:
            ApiError: 503, the broker is shutting down.
        """
        if self.is_closed:
            raise ApiError(503, "this broker is shutting down", kind="Draining")
        # The path that was matched with the routes.
        is_client = request.rel_url.path_safe.startswith(_CLIENT_PATHS)
        limit_s = _READ_LIMIT_S if request.method in _READS else _ACTION_LIMIT_S
        return self.clients if is_client else self.brokers, limit_s
