"""Promises that this broker gives: for a while it acquires nothing (docs: failsafe)."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.core.failsafe.promises import PROMISE_S, Refusal, Situation, refusal
from broker_ctl.core.model.commands import RequestPromise
from broker_ctl.errors import NotAdmitted

log = logging.getLogger(__name__)

# Names of others are only kept for the log; anybody may make some up.
_MOST_LOGGED: Final = 1_000


class Promises:
    """What this broker has promised; a restart forgets it, and waits until it has run out.

    ``situation`` is read at each request.
    """

    def __init__(self, clock: Clock, situation: Callable[[], Situation]) -> None:
        self._clock = clock
        self._situation = situation
        self._until_s = 0.0
        self._said: dict[str, str] = {}

    @property
    def left_s(self) -> float:
        """Seconds for which this broker acquires nothing."""
        return max(0.0, self._until_s - self._clock.now_s())

    def give(self, request: RequestPromise) -> Mapping[str, Any]:
        """Answer a request; from an answer that promises on, nothing is acquired."""
        reason = refusal(request.broker_id, request.version, self._situation())
        self._log(request.broker_id, reason)
        if reason is not None:
            return {"promised": False, "reason": reason.value}
        self._until_s = max(self._until_s, self._clock.now_s() + PROMISE_S)
        return {"promised": True}

    def require_none(self) -> None:
        """Check that nothing is promised.

        Raises:
            NotAdmitted: a promise still binds this broker.
        """
        if (left_s := self.left_s) > 0:
            raise NotAdmitted(f"this broker has promised to acquire nothing for {left_s:.1f} s")

    async def wait_none(self) -> None:
        """Return once nothing is promised any more."""
        # It ends with time alone, and a promise may be renewed meanwhile.
        while (left_s := self.left_s) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left_s)

    def _log(self, asking: str, reason: Refusal | None) -> None:
        """A broker asks every two seconds; the log has what is new."""
        said = f"{asking} is promised that nothing is acquired here"
        if reason is not None:
            said = f"{asking} is promised nothing: {reason.value}"
        if said != self._said.get(asking):
            if len(self._said) >= _MOST_LOGGED:
                self._said.clear()
            self._said[asking] = said
            log.info("%s", said)
