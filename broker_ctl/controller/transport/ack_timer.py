"""Time that brokers take to acknowledge requests: one log line per burst."""

import logging

log = logging.getLogger(__name__)


class AckTimer:
    """Measures one broker, from the first request until none is pending."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._requests = 0
        self._since_s = 0.0

    def add(self, requests: int, now_s: float) -> None:
        """Count requests that were queued or sent."""
        if not self._requests:
            self._since_s = now_s
        self._requests += requests

    def finish(self, now_s: float) -> None:
        """No request is queued or in flight."""
        if self._requests:
            took_s = now_s - self._since_s
            log.info(
                "broker %d acknowledged %d partition updates in %.3f s",
                self._broker_id,
                self._requests,
                took_s,
            )
        self._requests = 0
