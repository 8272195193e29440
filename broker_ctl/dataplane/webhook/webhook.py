"""A broker process behind HTTP: the calling side of the API that `wire` describes."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlencode

from broker_ctl.clock import Clock
from broker_ctl.core.model.load import BundleStats, SystemUsage
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.partitions.instructions import ReplicaError, ReplicaState, ReplicaStop
from broker_ctl.dataplane.bundles.interface import Authority, Declared, Unloaded
from broker_ctl.dataplane.webhook import replica_wire, wire
from broker_ctl.dataplane.webhook.replica_wire import HeldReplica, IsrAnswer, IsrProposal
from broker_ctl.errors import (
    DataPlaneError,
    DataPlaneFenced,
    DataPlaneRefused,
    DataPlaneUnreachable,
    HttpError,
)
from broker_ctl.http_client import HttpClient, HttpReply

log = logging.getLogger(__name__)

# Calls to a broker process over HTTP, of both parts of its API.
#
# Calls that change something are numbered, and name the instance that they are meant for: see
# `wire`.


_MAX_INSTANCE_ID: Final = 128


class Link:
    """Sends calls to one broker process, and tracks the instance that its replies name.

    Attributes:
        instance_id: of the reply to the latest call.
        heard_s: when that call was sent.
    """

    def __init__(self, url: str, http: HttpClient, clock: Clock) -> None:
        self._url = url.rstrip("/")
        self._http = http
        self._clock = clock
        self.instance_id = ""
        self.heard_s = 0.0
        self._attached = ""
        self._next_call: int | None = None
        self._attaching: asyncio.Future[None] | None = None

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        *,
        instance_id: str = "",
    ) -> Any:
        """One call; every call may be repeated, so a lost answer is resolved by a retry.

        ``instance_id``: the only instance that a call with a body is meant for; None: the current
            one.

        Raises:
            DataPlaneUnreachable: no answer, or another instance answers.
            DataPlaneFenced: its token is old, or a later call has arrived before it.
            DataPlaneRefused: any other error.
        """
        if body is not None:
            body = {**body, **await self._stamp(instance_id)}
        return self._judged(method, path, *await self._exchange(method, path, body, timeout_s))

    async def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout_s: float | None
    ) -> tuple[int, Mapping[str, Any]]:
        """Status and payload of a reply; its instance id is recorded."""
        sent_s = self._clock.now_s()
        try:
            reply = await self._http.request(
                method, self._url + path, json=body, timeout_s=timeout_s
            )
        except HttpError as error:
            raise DataPlaneUnreachable(str(error)) from error
        payload = _payload(reply)
        instance_id = _instance_id(payload)
        # The answer to an older one of several concurrent calls may come from a process that has
        # died since: only the answer to the latest call names the live instance.
        if instance_id and sent_s >= self.heard_s:
            self.heard_s, self.instance_id = sent_s, instance_id
        return reply.status, payload

    @staticmethod
    def _judged(method: str, path: str, status: int, payload: Mapping[str, Any]) -> Any:
        instance_id = _instance_id(payload)
        if status == 200 and instance_id:
            return payload
        if status == 200:
            raise DataPlaneRefused(f"{method} {path}: a reply without instance_id")
        reason = f"{method} {path}: {status} {payload.get('reason', '')}".rstrip()
        if status == 409:
            raise DataPlaneFenced(reason)
        if status >= 500 or status in {412, 429}:
            raise DataPlaneUnreachable(reason)
        raise DataPlaneRefused(reason)

    # Numbers.

    async def attach(self) -> str:
        """Attach to the instance; from then on it refuses calls of earlier daemons.

        A state that is read after this contains every effect that their calls will ever have.

        Raises:
            DataPlaneError: it does not answer, or a later daemon has attached.
        """
        if not self._attached or self._attached != self.instance_id:
            await self._attach()
        return self._attached

    async def _stamp(self, meant_for: str) -> Mapping[str, Any]:
        """Fields that are added to the body; the number is assigned when the call is decided."""
        await self.attach()
        if meant_for and meant_for != self._attached:
            raise DataPlaneUnreachable(f"the broker process is {self._attached}, not {meant_for}")
        if self._next_call is None:
            return {}
        number, self._next_call = self._next_call, self._next_call + 1
        return {wire.INSTANCE_ID: self._attached, wire.CALL: number}

    async def _attach(self) -> None:
        """Attach once for all waiting callers, who are numbered in the order of their arrival."""
        if self._attaching is not None:
            await asyncio.shield(self._attaching)
            return
        attaching = self._attaching = asyncio.get_running_loop().create_future()
        try:
            instance_id, first = await self._numbered_from()
            if first is not None:
                first = await self._close_earlier(instance_id, first)
        except BaseException as error:
            is_answer = isinstance(error, DataPlaneError)
            attaching.set_exception(error if is_answer else DataPlaneUnreachable("not attached"))
            # Even if no other caller has waited.
            attaching.exception()
            raise
        else:
            self._attached, self._next_call = instance_id, first
            attaching.set_result(None)
        finally:
            self._attaching = None

    async def _numbered_from(self) -> tuple[str, int | None]:
        """The instance, and our first number; None from a process that does not number calls."""
        status, payload = await self._exchange("POST", wire.ATTACH, {}, None)
        if status == 404:
            log.warning(
                "the broker process does not support /attach: it may carry out late calls of an "
                "earlier daemon; upgrade it before the next release"
            )
            return _instance_id(payload), None
        payload = self._judged("POST", wire.ATTACH, status, payload)
        with reading(wire.ATTACH):
            return _instance_id(payload), wire.count(payload, wire.FIRST_CALL)

    async def _close_earlier(self, instance_id: str, first: int) -> int:
        """Confirm the number, which ends those of earlier daemons; return the next number.

        A late first request of a dead daemon takes a number, but ends no other daemon's numbers; a
        late second request carries the number of its own daemon.
        """
        body = {wire.INSTANCE_ID: instance_id, wire.CALL: first}
        answer = await self._exchange("POST", wire.ATTACH, body, None)
        payload = self._judged("POST", wire.ATTACH, *answer)
        with reading(wire.ATTACH):
            counted = wire.count(payload, wire.FIRST_CALL)
        if counted == first:
            return first + 1
        log.warning(
            "the broker process does not confirm /attach: until the first call of this daemon it "
            "may carry out late calls of an earlier one; upgrade it"
        )
        return counted


@contextmanager
def reading(path: str) -> Iterator[None]:
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


# The replicas of a broker process over HTTP: the client side of `replica_wire`.


class WebhookReplicas:
    """`ReplicaPlane` of a broker process; `replicas` fails if it keeps none.

    Args:
        link: calls to it; shared with its `WebhookDataPlane`.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._instance_id = ""

    def expect(self, instance_id: str) -> None:
        """Address calls to this instance only; any other refuses them."""
        self._instance_id = instance_id

    async def become_leader(self, replicas: Sequence[ReplicaState]) -> Sequence[ReplicaError]:
        """Instruct the broker process to lead these partitions."""
        return await self._send(
            replica_wire.BECOME_LEADER, replica_wire.encode_instructions(replicas)
        )

    async def become_follower(
        self, replicas: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        """Instruct the broker process to follow in these partitions."""
        return await self._send(
            replica_wire.BECOME_FOLLOWER, replica_wire.encode_instructions(replicas, brokers)
        )

    async def stop_replicas(self, stops: Sequence[ReplicaStop]) -> Sequence[ReplicaError]:
        """Instruct the broker process to stop these replicas."""
        return await self._send(replica_wire.STOP, replica_wire.encode_stops(stops))

    async def replicas(self) -> Sequence[HeldReplica]:
        """All replicas; `DataPlaneRefused` if the broker process keeps none."""
        reply = await self._link.call("GET", replica_wire.REPLICAS)
        with reading(replica_wire.REPLICAS):
            return replica_wire.replicas(reply)

    async def isr_proposals(
        self, lag_time_s: float, throttle: int | None = None
    ) -> Sequence[IsrProposal]:
        """ISR changes that the leaders there request."""
        reply = await self._link.call("GET", replica_wire.wishes_path(lag_time_s, throttle))
        with reading(replica_wire.ISR_WISHES):
            return replica_wire.wishes(reply)

    async def answer_proposals(self, answers: Sequence[IsrAnswer]) -> None:
        """Answer the leaders' proposals."""
        for body in replica_wire.encode_answers(answers):
            await self._link.call(
                "POST", replica_wire.ISR_ANSWERS, body, instance_id=self._instance_id
            )

    async def _send(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> list[ReplicaError]:
        """Send one call after the other; all may be repeated if a later one fails."""
        found: list[ReplicaError] = []
        for body in bodies:
            reply = await self._link.call("POST", path, body, instance_id=self._instance_id)
            with reading(path):
                found += replica_wire.errors(reply)
        return found


# A broker process behind HTTP: the calling side of the API that `wire` describes.
#
# The daemon calls the broker process and never waits for it to be called back, with one
# exception: authority is pulled. A pushed grant would arrive late by its transit time; a pulled
# one counts from the moment at which the broker process sent its request (docs:
# broker-process-authority).


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
