"""Controlled shutdown: the controller moves leaderships off a broker before it stops.

Docs: kafka-procedures. The partitions change leaders in one batch while the broker still serves, so
no client waits for a session to expire. Requests are repeated with growing pauses, so that they do
not keep a busy controller busy.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.errors import HttpError
from broker_ctl.peer_http import PeerHttp, Source, urls_at

log = logging.getLogger(__name__)

_PATH: Final = "/control/v1/controlled-shutdown"
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class ShutdownRules:
    """How often and how long a broker asks the controller to move its leaderships.

    Attributes:
        max_retries: number of requests after the first one.
        backoff_s: pause before the first retry; it doubles with each further retry.
        timeout_s: timeout of one request.
    """

    max_retries: int = 3
    backoff_s: float = 1.0
    timeout_s: float = 10.0


class ControlledShutdown:
    """Requests of one broker to lead no partition any more.

    Args:
        replicas: returns the number of replicas on this broker; without any it sends no request.
        controller: returns the name and web address of the controller's daemon; None if no
            controller is known.
    """

    def __init__(
        self,
        ids: BrokerIds,
        http: PeerHttp,
        rules: ShutdownRules,
        *,
        replicas: Callable[[], int],
        controller: Callable[[], tuple[str, str] | None],
    ) -> None:
        self._ids = ids
        self._http = http
        self._rules = rules
        self._replicas = replicas
        self._controller = controller

    async def run(self) -> bool:
        """Ask until this broker leads nothing; False if it still leads or the result is unknown.

        The caller sets the deadline. The broker may stop with either result: partitions that it
        still leads get new leaders when its registration goes.
        """
        pause_s = self._rules.backoff_s
        for attempt in range(self._rules.max_retries + 1):
            if attempt:
                await asyncio.sleep(pause_s)
                pause_s *= 2
            # The session, and this registration with it, may have ended during the pause.
            if not self._ids.epoch:
                return False
            if not self._replicas():
                return True
            if await self._is_done():
                log.info("controlled shutdown: this broker leads no partition any more")
                return True
        log.warning(
            "controlled shutdown: this broker still leads partitions; stopping nevertheless"
        )
        return False

    async def _is_done(self) -> bool:
        found = self._controller()
        if found is None:
            log.info("controlled shutdown: no controller is known to ask for new leaders")
            return False
        body = {
            "broker": self._ids.broker_id,
            "broker_epoch": self._ids.epoch,
            "force": False,
        }
        try:
            reply = await self._http.request(
                "POST",
                urls_at(*found),
                _PATH,
                Source.ELECTION,
                json=body,
                timeout_s=self._rules.timeout_s,
            )
            row = reply.json()
        except HttpError as error:
            log.info("controlled shutdown: no answer from controller %s: %s", found[0], error)
            return False
        if reply.status != _OK or not isinstance(row, Mapping):
            log.info("controlled shutdown: %s answered with status %d", found[0], reply.status)
            return False
        return _is_done_reply(row)


def _is_done_reply(row: Mapping[str, Any]) -> bool:
    led, reason = row.get("led"), row.get("reason")
    if row.get("is_done") is True and not led:
        return True
    count = len(led) if isinstance(led, list) else 0
    log.info("controlled shutdown: this broker still leads %d partitions; %s", count, reason or "")
    return False
