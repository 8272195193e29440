"""Sessions of browsers: a random id in a cookie for the token that a client signed in with.

The token stays in memory, and goes with each request of the session to the API, which judges it
again each time: a token that is withdrawn or expires ends what its session may see.
"""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from aiohttp import web

from broker_ctl.clock import Clock

_ID_BYTES: Final = 32
_MOST_SESSIONS: Final = 1000
_LIFE_S: Final = 12 * 3600


@dataclass(frozen=True, slots=True)
class _Session:
    token: str = field(repr=False)
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
        key = _key(request.cookies.get(self.cookie, ""))
        session = self._open.get(key)
        if session is not None and session.end_s <= self._clock.now_s():
            del self._open[key]
            session = None
        return "" if session is None else session.token

    def begin(self, request: web.Request, token: str) -> str:
        """Begin a session; the value of ``Set-Cookie``. The oldest ends if there are too many."""
        while len(self._open) >= _MOST_SESSIONS:
            self._open.popitem(last=False)
        session_id = secrets.token_urlsafe(_ID_BYTES)
        self._open[_key(session_id)] = _Session(token, self._clock.now_s() + _LIFE_S)
        return self._set_cookie(request, session_id, _LIFE_S)

    def end(self, request: web.Request) -> str:
        """End the session of a request; the value of ``Set-Cookie``."""
        self._open.pop(_key(request.cookies.get(self.cookie, "")), None)
        return self._set_cookie(request, "", 0)

    def _set_cookie(self, request: web.Request, value: str, age_s: int) -> str:
        attributes = f"Path=/ui; Max-Age={age_s}; HttpOnly; SameSite=Strict"
        return f"{self.cookie}={value}; {attributes}" + ("; Secure" if request.secure else "")


def _key(session_id: str) -> bytes:
    """What is kept of an id: memory that leaks must not open sessions."""
    return sha256(session_id.encode(errors="surrogateescape")).digest()
