"""Sessions of browsers: a random id in a cookie for the token that a client signed in with.

The token stays in memory, and goes with each request of the session to the API, which judges it
again each time: a token that is withdrawn or expires ends what its session may see.
"""

import secrets
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from aiohttp import web

from broker_ctl.clock import Clock

_ID_BYTES: Final = 32
_MOST_SESSIONS: Final = 1000
_MOST_OF_ROLE: Final = 100
_LIFE_S: Final = 12 * 3600


@dataclass(frozen=True, slots=True)
class _Session:
    token: str = field(repr=False)
    role: str
    end_s: float


class Sessions:
    """The sessions of one process; a restart ends them."""

    def __init__(self, own_id: str, clock: Clock) -> None:
        self._own_id = own_id
        self._clock = clock
        self._open: OrderedDict[bytes, _Session] = OrderedDict()

    @property
    def cookie(self) -> str:
        """Its name: a browser sends cookies to all ports of a host, so each daemon has its own."""
        return f"broker-ctl-{sha256(self._own_id.encode()).hexdigest()[:12]}"

    def token_of(self, request: web.Request) -> str:
        """The token of a request's session; empty: it has none."""
        self._forget_ended()
        session = self._open.get(_key(request.cookies.get(self.cookie, "")))
        return "" if session is None else session.token

    def begin(self, request: web.Request, token: str, role: str) -> str:
        """Begin a session; the value of ``Set-Cookie``.

        Where a role has too many, its oldest ends; where all have, the oldest of the role that has
        most: nobody ends the sessions of others by signing in.
        """
        self._forget_ended()
        of_roles = Counter(session.role for session in self._open.values())
        if of_roles[role] >= _MOST_OF_ROLE:
            self._end_oldest_of(role)
        elif len(self._open) >= _MOST_SESSIONS:
            self._end_oldest_of(of_roles.most_common(1)[0][0])
        session_id = secrets.token_urlsafe(_ID_BYTES)
        self._open[_key(session_id)] = _Session(token, role, self._clock.now_s() + _LIFE_S)
        return self._set_cookie(request, session_id, _LIFE_S)

    def end(self, request: web.Request) -> str:
        """End the session of a request; the value of ``Set-Cookie``."""
        self._open.pop(_key(request.cookies.get(self.cookie, "")), None)
        return self._set_cookie(request, "", 0)

    def _forget_ended(self) -> None:
        """Forget the tokens of sessions that nobody has ended; the first to end come first."""
        now_s = self._clock.now_s()
        while self._open and next(iter(self._open.values())).end_s <= now_s:
            self._open.popitem(last=False)

    def _end_oldest_of(self, role: str) -> None:
        del self._open[next(key for key, one in self._open.items() if one.role == role)]

    def _set_cookie(self, request: web.Request, value: str, age_s: int) -> str:
        attributes = f"Path=/ui; Max-Age={age_s}; HttpOnly; SameSite=Strict"
        return f"{self.cookie}={value}; {attributes}" + ("; Secure" if request.secure else "")


def _key(session_id: str) -> bytes:
    """What is kept of an id: memory that leaks must not open sessions."""
    return sha256(session_id.encode(errors="surrogateescape")).digest()
