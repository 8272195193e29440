"""The credentials of a connected client: how long they count, and how newer ones replace them.

    credentials  event                                  action                        next
    valid        any command                            handled
    expired      command, refresh is possible           AUTH_CHALLENGE, command held  challenged
    expired      check, refresh is possible             AUTH_CHALLENGE                challenged
    expired      command or check, refresh impossible   ERROR, left
    challenged   PING, PONG                             handled                       challenged
    challenged   other command                          held; ERROR, left, if many    challenged
    challenged   AUTH_RESPONSE, valid, the same role    held commands handled         valid
    challenged   AUTH_RESPONSE, otherwise               ERROR, left
    challenged   check                                  ERROR, left
    valid        AUTH_RESPONSE                          ERROR, left

A command never counts under expired credentials. Pulsar's broker serves commands until its next
check; it sends the same challenge (``refreshAuthenticationCredentials`` in
https://github.com/apache/pulsar/blob/master/pulsar-broker/src/main/java/org/apache/pulsar/broker/service/ServerCnx.java).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from broker_ctl.api.binary.handshake import Admitted
from broker_ctl.security.principal import Principal

# A client that waits for the challenge has few requests; each is at most a frame.
MAX_HELD: Final = 128


class Credentials:
    """Those of one connection. Without authentication nothing expires."""

    def __init__(self, admitted: Admitted) -> None:
        self._principal = admitted.principal
        self.can_refresh: Final = admitted.can_refresh
        self.is_challenged = False
        self._held: list[bytes] = []

    @property
    def can_expire(self) -> bool:
        """Whether they have an end."""
        return self._principal is not None and self._principal.expires_at_s is not None

    @property
    def role(self) -> str:
        """The role that they prove; empty: none is needed."""
        return "" if self._principal is None else self._principal.role

    @property
    def proof(self) -> str:
        """What proves it."""
        return "" if self._principal is None else self._principal.proof.value

    def is_expired(self, now_s: float) -> bool:
        """Whether they have ended at this Unix time."""
        return self._principal is not None and self._principal.is_expired(now_s)

    def hold(self, command: bytes) -> bool:
        """Keep a command until there are newer credentials; whether there was room."""
        if len(self._held) >= MAX_HELD:
            return False
        self._held.append(command)
        return True

    def renew(self, principal: Principal) -> tuple[bytes, ...]:
        """Replace them; returns the commands that were held."""
        self._principal, self.is_challenged = principal, False
        held, self._held = tuple(self._held), []
        return held


class RefreshTimer:
    """Calls ``check`` when ``every_s`` have passed since it was restarted."""

    def __init__(self, every_s: float, check: Callable[[], None]) -> None:
        self._every_s = every_s
        self._check = check
        self._handle: asyncio.TimerHandle | None = None

    def restart(self) -> None:
        """Call after the whole time from now on, once."""
        self.cancel()
        self._handle = asyncio.get_running_loop().call_later(self._every_s, self._check)

    def cancel(self) -> None:
        """Do not call."""
        if self._handle is not None:
            self._handle.cancel()
