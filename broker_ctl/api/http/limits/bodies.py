"""What the bodies of requests may take, as metrics show it."""

from typing import Final

from broker_ctl.instruments.bounds import BoundInstruments


class Bodies:
    """Bodies that one server is reading.

    Attributes:
        limit: bytes of one body.
        refused: how many were too large, or were not sent in time.
    """

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self.refused = 0
        # By the id of a buffer: buffers are equal if their bytes are.
        self._reading: dict[int, bytearray] = {}

    def show(self, bounds: BoundInstruments) -> None:
        """Show them as a bound."""
        bounds.follow(
            "http-body-bytes",
            used=lambda: max(map(len, self._reading.values()), default=0),
            limit=lambda: self.limit,
            refused=lambda: self.refused,
        )

    def begin(self, body: bytearray) -> None:
        """Count what a body has so far."""
        self._reading[id(body)] = body

    def end(self, body: bytearray) -> None:
        """It is read, or refused."""
        del self._reading[id(body)]
