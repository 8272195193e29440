"""A broker process behind HTTP: the calling side of the API that `wire` describes.

The daemon calls the broker process and never waits for it to be called back, with one exception:
authority is pulled. A pushed grant would arrive late by its transit time; a pulled one counts from
the moment at which the broker process sent its request (docs: broker-process-authority).
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from broker_ctl.clock import Clock
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats, SystemUsage
from broker_ctl.dataplane.bundles.authority import Authority
from broker_ctl.dataplane.bundles.interface import Declared, Unloaded
from broker_ctl.dataplane.webhook import wire
from broker_ctl.dataplane.webhook.link import Link, reading
from broker_ctl.errors import DataPlaneUnreachable
from broker_ctl.http_client import HttpClient

# An unload is answered at its deadline; the answer may take this long to arrive.
_ANSWER_S = 1.0
# The process may be replaced between the attach and the read.
_LOOKS = 3


class WebhookDataPlane:
    """A broker process at ``url``, for instance ``http://127.0.0.1:9090``.

    Args:
        url: scheme, host and port of the broker process.
        http: carries the shared secret and the deadline of a call; closed by its owner.
        clock: for authority and silence.
        failure_timeout_s: silence after which the broker process counts as dead (I11).

    Attributes:
        link: calls to the broker process, shared with the replica API.
    """

    def __init__(
        self, url: str, http: HttpClient, clock: Clock, *, failure_timeout_s: float
    ) -> None:
        self.link = Link(url, http, clock)
        self._clock = clock
        self._failure_timeout_s = failure_timeout_s
        self._state: Mapping[str, Any] = {}
        self._authority = Authority()

    @property
    def instance_id(self) -> str:
        """The instance that answered the latest call."""
        return self.link.instance_id

    @property
    def declared(self) -> Declared:
        """The declaration in its latest state."""
        return wire.declared(self._state)

    @property
    def is_silent(self) -> bool:
        """Whether the last reply is older than the failure timeout.

        Only calls bring replies: the failure detector makes one, such as `loaded`, every third of
        it.
        """
        return self._clock.now_s() - self.link.heard_s > self._failure_timeout_s

    async def start(self) -> None:
        """Read ``instance_id``; fails at once if the broker process does not answer."""
        self._state = await self.link.call("GET", wire.STATE)
        with reading(wire.STATE):
            wire.tokens(self._state, "bundles")

    async def stop(self) -> None:
        """Withdraw authority. The process is not ours to stop: it ends its acts by itself."""
        self._authority = Authority()

    def grant(self, session_epoch: int, deadline_s: float) -> None:
        """Set the authority that the broker process may pull."""
        self._authority = Authority(session_epoch, deadline_s)

    def authority(self) -> tuple[int, int]:
        """Session epoch and remaining milliseconds, for the handler of ``GET /authority``."""
        return self._authority.session_epoch, self._authority.remaining_ms(self._clock.now_s())

    async def load(self, bundle: Bundle, token: int, *, is_preloading: bool = True) -> None:
        """Start serving a bundle under a token."""
        body = {"bundle": str(bundle), "token": token, wire.PRELOAD: is_preloading}
        await self.link.call("POST", wire.LOAD, body)

    async def renew(self, bundle: Bundle, token: int) -> None:
        """Keep serving a bundle under a higher token."""
        await self.link.call("POST", wire.RENEW, {"bundle": str(bundle), "token": token})

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Replace a loaded bundle by its children."""
        body = {"parent": str(parent), "children": wire.tokens_json(children)}
        await self.link.call("POST", wire.SPLIT, body)

    async def merge(self, children: tuple[Bundle, Bundle], parent: Bundle, token: int) -> None:
        """Replace two loaded bundles by one."""
        names = [str(child) for child in children]
        body = {"children": names, "parent": str(parent), "token": token}
        await self.link.call("POST", wire.MERGE, body)

    async def unload(self, bundle: Bundle, deadline_s: float) -> Unloaded:
        """Close the bundle's topics; waits a little longer than ``deadline_s`` for the answer."""
        body = {"bundle": str(bundle), "deadline_ms": max(0, int(deadline_s * 1000))}
        reply = await self.link.call("POST", wire.UNLOAD, body, max(0.0, deadline_s) + _ANSWER_S)
        with reading(wire.UNLOAD):
            closed = wire.count(reply, "topics_closed")
            return Unloaded(closed, wire.field(reply, "is_confirmed", bool))

    async def unload_topic(self, topic: str) -> None:
        """Close one topic."""
        await self.link.call("POST", wire.UNLOAD_TOPIC, {"topic": topic})

    async def fence(self, bundle: Bundle) -> None:
        """Stop serving at once."""
        await self.link.call("POST", wire.FENCE, {"bundle": str(bundle)})

    async def loaded(self) -> Mapping[Bundle, int]:
        """Bundles that are being served, with their tokens.

        Attaches first: a late load of an earlier daemon that arrived after the read would otherwise
        be served under the authority of this daemon.
        """
        for _ in range(_LOOKS):
            attached = await self.link.attach()
            self._state = await self.link.call("GET", wire.STATE)
            if self._state[wire.INSTANCE_ID] == attached:
                with reading(wire.STATE):
                    return wire.tokens(self._state, "bundles")
        raise DataPlaneUnreachable(f"{wire.STATE}: another instance answers each time")

    async def topics(self, bundle: Bundle) -> tuple[str, ...]:
        """Complete names of the bundle's loaded topics."""
        reply = await self.link.call("GET", f"{wire.TOPICS}?{urlencode({'bundle': str(bundle)})}")
        with reading(wire.TOPICS):
            return tuple(str(name) for name in wire.field(reply, "topics", list))

    async def topic_statistics(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        """Current traffic of each of the bundle's loaded topics, by complete name."""
        query = urlencode({"bundle": str(bundle)})
        reply = await self.link.call("GET", f"{wire.TOPIC_STATISTICS}?{query}")
        with reading(wire.TOPIC_STATISTICS):
            return wire.topic_statistics(reply)

    async def statistics(self) -> Mapping[Bundle, BundleStats]:
        """Current traffic of each loaded bundle."""
        reply = await self.link.call("GET", wire.STATISTICS)
        with reading(wire.STATISTICS):
            return wire.statistics(reply)

    async def usage(self) -> SystemUsage | None:
        """The broker process's load; None: measure the host."""
        reply = await self.link.call("GET", wire.USAGE)
        with reading(wire.USAGE):
            return wire.usage(reply)
