"""How many requests may be in progress, and for how long."""

from typing import Final, Self

from aiohttp import web

from broker_ctl.api.http.responses import ApiError

# Pulsar's clients give a lookup up after 30 s. Acts have deadlines of their own, which are
# shorter: this one only ends what hangs. The act itself goes on.
_READ_LIMIT_S: Final = 30.0
_ACT_LIMIT_S: Final = 300.0
_READS: Final = frozenset({"GET", "HEAD"})
_CLIENT_PATHS: Final = ("/lookup/", "/admin/", "/partitions/")


class ConcurrencyLimit:
    """At most ``limit`` at a time; one more is refused, never queued.

    A lookup passes two of them, and takes some 50 us in all: the block is the bound itself.
    """

    def __init__(self, subject: str, limit: int) -> None:
        self._subject = subject
        self.limit = limit
        self.in_flight = 0

    def held(self) -> Self:
        """Count one for the length of the block.

        Raises:
            ApiError: 503, there are too many.
        """
        return self

    def __enter__(self) -> None:
        if self.in_flight >= self.limit:
            raise ApiError(503, f"{self.limit} {self._subject} are in progress", kind="Busy")
        self.in_flight += 1

    def __exit__(self, *_: object) -> None:
        self.in_flight -= 1


class RequestClasses:
    """Two lanes of one width, one for clients and one for everybody else.

    A flood of clients keeps out neither the leader's orders, nor a broker process that asks for
    its authority, nor whoever looks what the matter is.
    """

    def __init__(self, width: int) -> None:
        self.clients = ConcurrencyLimit("requests of clients", width)
        self.brokers = ConcurrencyLimit("requests", width)
        self.is_closed = False

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return self.clients.in_flight + self.brokers.in_flight

    def close(self) -> None:
        """Refuse whatever comes now."""
        self.is_closed = True

    def of(self, request: web.Request) -> tuple[ConcurrencyLimit, float]:
        """The lane of a request, and how long it may take, in seconds.

        Raises:
            ApiError: 503, nothing is taken any more.
        """
        if self.is_closed:
            raise ApiError(503, "this broker is shutting down", kind="Draining")
        is_client = request.path.startswith(_CLIENT_PATHS)
        limit_s = _READ_LIMIT_S if request.method in _READS else _ACT_LIMIT_S
        return self.clients if is_client else self.brokers, limit_s
