"""Before it stops, a broker has the controller take its leaderships away (docs: kafka-procedures).

Its partitions then change leaders in one batch, while it still serves, and no client waits for a
session to expire. Asked again, less and less often, since a controller that is busy must not be
kept busy by those who wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.coordination.membership.broker_ids import BrokerIds
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient

log = logging.getLogger(__name__)

_PATH: Final = "/control/v1/controlled-shutdown"
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class ShutdownRules:
    """How patient a broker is.

    Attributes:
        max_retries: how often it asks again.
        backoff_s: pause before the first of these; it doubles each time.
        timeout_s: of one question.
    """

    max_retries: int = 3
    backoff_s: float = 1.0
    timeout_s: float = 10.0


class ControlledShutdown:
    """One broker's way out.

    Args:
        replicas: how many this broker has; without any there is nothing to take away.
        controller: name and web address of the daemon that controls; None while nobody is known.
    """

    def __init__(
        self,
        ids: BrokerIds,
        http: HttpClient,
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
        """Ask until nothing is led here any more; false where something is, or nobody could tell.

        The caller gives the deadline. Whatever comes of it, the broker may stop: what it leads
        then gets its leaders when its registration goes.
        """
        pause_s = self._rules.backoff_s
        for attempt in range(self._rules.max_retries + 1):
            if attempt:
                await asyncio.sleep(pause_s)
                pause_s *= 2
            # Meanwhile the session may have ended, and this life with it.
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
            log.info("controlled shutdown: no controller is known")
            return False
        body = {
            "broker": self._ids.broker_id,
            "broker_epoch": self._ids.epoch,
            "force": False,
        }
        try:
            reply = await self._http.request(
                "POST", f"{found[1]}{_PATH}", json=body, timeout_s=self._rules.timeout_s
            )
            row = reply.json()
        except HttpError as error:
            log.info("controlled shutdown: %s", error)
            return False
        if reply.status != _OK or not isinstance(row, Mapping):
            log.info("controlled shutdown: %s answered with %d", found[0], reply.status)
            return False
        return _is_done_reply(row)


def _is_done_reply(row: Mapping[str, Any]) -> bool:
    led, reason = row.get("led"), row.get("reason")
    if row.get("is_done") is True and not led:
        return True
    count = len(led) if isinstance(led, list) else 0
    log.info("controlled shutdown: this broker still leads %d partitions; %s", count, reason or "")
    return False
