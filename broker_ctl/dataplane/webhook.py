"""A broker process behind HTTP: the calling side of the API that `wire` describes.

The daemon calls the broker process and never waits for it to be called back, with one exception:
authority is pulled. A lease that were pushed would be as old as its way was long; one that is
pulled is counted by the broker process from the moment at which it asked (design: Authority).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from broker_ctl.clock import Clock
from broker_ctl.core.bundle import Bundle
from broker_ctl.core.load import BundleStats, SystemUsage
from broker_ctl.dataplane import wire
from broker_ctl.dataplane.authority import Authority
from broker_ctl.dataplane.interface import Unloaded
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused, DataPlaneUnreachable, HttpError
from broker_ctl.http import HttpClient, HttpReply

# An unload is answered at its deadline; the answer has this long for its way.
_ANSWER_S = 1.0
_MAX_INSTANCE_ID = 128


class WebhookDataPlane:
    """A broker process at ``url``, for instance ``http://127.0.0.1:9090``.

    Args:
        url: scheme, host and port of the broker process.
        http: carries the shared secret and the deadline of a call; closed by its owner.
        clock: decides about authority and silence.
        failure_timeout_s: silence for so long means that the broker process is dead (I11).
    """

    def __init__(
        self, url: str, http: HttpClient, clock: Clock, *, failure_timeout_s: float
    ) -> None:
        self._link = _Link(url, http, clock)
        self._clock = clock
        self._failure_timeout_s = failure_timeout_s
        self._storage_refuses_old_tokens = False
        self._authority = Authority()

    @property
    def instance_id(self) -> str:
        """As of the last reply, whichever call it answered."""
        return self._link.instance_id

    @property
    def storage_refuses_old_tokens(self) -> bool:
        """As the broker process declared it last; no, where it does not say."""
        return self._storage_refuses_old_tokens

    @property
    def is_silent(self) -> bool:
        """Whether the last reply is older than the failure timeout.

        Only calls bring replies: whoever watches makes one, `loaded` say, every third of it.
        """
        return self._clock.now_s() - self._link.heard_s > self._failure_timeout_s

    async def start(self) -> None:
        """Learn ``instance_id``; fails at once where the broker process does not answer."""
        await self.loaded()

    async def stop(self) -> None:
        """Withdraw authority. The process is not ours to stop: it ends its acts by itself."""
        self._authority = Authority()

    def grant(self, session_epoch: int, deadline_s: float) -> None:
        """Authority that the broker process may pull."""
        self._authority = Authority(session_epoch, deadline_s)

    def authority(self) -> tuple[int, int]:
        """Session epoch and remaining milliseconds, for whoever serves ``GET /authority``."""
        return self._authority.session_epoch, self._authority.remaining_ms(self._clock.now_s())

    async def load(self, bundle: Bundle, token: int, *, is_preloading: bool = True) -> None:
        """Start serving a bundle under a token."""
        body = {"bundle": str(bundle), "token": token, wire.PRELOAD: is_preloading}
        await self._link.call("POST", wire.LOAD, body)

    async def renew(self, bundle: Bundle, token: int) -> None:
        """Owned again under a higher token."""
        await self._link.call("POST", wire.RENEW, {"bundle": str(bundle), "token": token})

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Replace a loaded bundle by its children."""
        body = {"parent": str(parent), "children": wire.tokens_json(children)}
        await self._link.call("POST", wire.SPLIT, body)

    async def merge(self, children: tuple[Bundle, Bundle], parent: Bundle, token: int) -> None:
        """Replace two loaded bundles by one."""
        names = [str(child) for child in children]
        body = {"children": names, "parent": str(parent), "token": token}
        await self._link.call("POST", wire.MERGE, body)

    async def unload(self, bundle: Bundle, deadline_s: float) -> Unloaded:
        """Close the bundle's topics; waits a little longer than ``deadline_s`` for the answer."""
        body = {"bundle": str(bundle), "deadline_ms": max(0, int(deadline_s * 1000))}
        reply = await self._link.call("POST", wire.UNLOAD, body, max(0.0, deadline_s) + _ANSWER_S)
        with _reading(wire.UNLOAD):
            closed = wire.count(reply, "topics_closed")
            return Unloaded(closed, wire.field(reply, "is_confirmed", bool))

    async def unload_topic(self, topic: str) -> None:
        """Close one topic."""
        await self._link.call("POST", wire.UNLOAD_TOPIC, {"topic": topic})

    async def fence(self, bundle: Bundle) -> None:
        """Stop serving at once."""
        await self._link.call("POST", wire.FENCE, {"bundle": str(bundle)})

    async def loaded(self) -> Mapping[Bundle, int]:
        """What is being served, with the token of each."""
        reply = await self._link.call("GET", wire.STATE)
        self._storage_refuses_old_tokens = reply.get(wire.STORAGE_REFUSES) is True
        with _reading(wire.STATE):
            return wire.tokens(reply, "bundles")

    async def topics(self, bundle: Bundle) -> tuple[str, ...]:
        """Complete names of the bundle's loaded topics."""
        reply = await self._link.call("GET", f"{wire.TOPICS}?{urlencode({'bundle': str(bundle)})}")
        with _reading(wire.TOPICS):
            return tuple(str(name) for name in wire.field(reply, "topics", list))

    async def topic_statistics(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        """Current traffic of each of the bundle's loaded topics, by complete name."""
        query = urlencode({"bundle": str(bundle)})
        reply = await self._link.call("GET", f"{wire.TOPIC_STATISTICS}?{query}")
        with _reading(wire.TOPIC_STATISTICS):
            return wire.topic_statistics(reply)

    async def statistics(self) -> Mapping[Bundle, BundleStats]:
        """Current traffic of each loaded bundle."""
        reply = await self._link.call("GET", wire.STATISTICS)
        with _reading(wire.STATISTICS):
            return wire.statistics(reply)

    async def usage(self) -> SystemUsage | None:
        """The broker process's load; None: ask the host."""
        reply = await self._link.call("GET", wire.USAGE)
        with _reading(wire.USAGE):
            return wire.usage(reply)


class _Link:
    """The calls to one broker process, and what every reply says besides its answer.

    Attributes:
        instance_id: as of the reply to the call that was sent last.
        heard_s: when that call was sent.
    """

    def __init__(self, url: str, http: HttpClient, clock: Clock) -> None:
        self._url = url.rstrip("/")
        self._http = http
        self._clock = clock
        self.instance_id = ""
        self.heard_s = 0.0

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """One call; all of them may be repeated, so a lost answer is only a reason to ask again."""
        sent_s = self._clock.now_s()
        try:
            reply = await self._http.request(
                method, self._url + path, json=body, timeout_s=timeout_s
            )
        except HttpError as error:
            raise DataPlaneUnreachable(str(error)) from error
        payload = _payload(reply)
        instance_id = _instance_id(payload)
        # Of several calls under way, the answer to an older one may come from a process that has
        # died since: only the one that was sent last says who lives.
        if instance_id and sent_s >= self.heard_s:
            self.heard_s, self.instance_id = sent_s, instance_id
        if reply.status == 200 and instance_id:
            return payload
        if reply.status == 200:
            raise DataPlaneRefused(f"{method} {path}: a reply without instance_id")
        reason = f"{method} {path}: {reply.status} {payload.get('reason', '')}".rstrip()
        if reply.status == 409:
            raise DataPlaneFenced(reason)
        if reply.status >= 500 or reply.status == 429:
            raise DataPlaneUnreachable(reason)
        raise DataPlaneRefused(reason)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Names the call whose reply is malformed."""
    try:
        yield
    except ValueError as error:
        raise DataPlaneRefused(f"{path}: malformed reply: {error}") from error


def _payload(reply: HttpReply) -> Mapping[str, Any]:
    try:
        payload = reply.json()
    except HttpError as error:
        if reply.status != 200:
            return {}
        raise DataPlaneRefused(str(error)) from error
    return payload if isinstance(payload, dict) else {}


def _instance_id(payload: Mapping[str, Any]) -> str:
    value = payload.get("instance_id")
    return value if isinstance(value, str) and len(value) <= _MAX_INSTANCE_ID else ""
