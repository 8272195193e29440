"""How long a broker takes to acknowledge what it is told: one line of the log for each burst."""

import logging

log = logging.getLogger(__name__)


class AckTimer:
    """What waits for one broker, from the first letter until none waits any more."""

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._letters = 0
        self._since_s = 0.0

    def posted(self, letters: int, now_s: float) -> None:
        """So many more wait, or are on their way."""
        if not self._letters:
            self._since_s = now_s
        self._letters += letters

    def answered(self, now_s: float) -> None:
        """None waits, and none is on its way."""
        if self._letters:
            took_s = now_s - self._since_s
            log.info(
                "broker %d has acknowledged %d instructions on replicas within %.3f s",
                self._broker_id,
                self._letters,
                took_s,
            )
        self._letters = 0
