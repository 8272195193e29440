"""The calls to a broker process behind HTTP, whichever part of its API they belong to.

Those that change something are numbered, and name the instance that they are meant for: see `wire`.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.dataplane.webhook import wire
from broker_ctl.errors import (
    DataPlaneError,
    DataPlaneFenced,
    DataPlaneRefused,
    DataPlaneUnreachable,
    HttpError,
)
from broker_ctl.http_client import HttpClient, HttpReply

log = logging.getLogger(__name__)

_MAX_INSTANCE_ID: Final = 128


class Link:
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
        """One call; all of them may be repeated, so a lost answer is only a reason to ask again.

        ``instance_id``: the only process that a call with a body is meant for, where the caller has
        one in mind; else whichever lives.

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
        """Status and payload of a reply, which says as well who lives."""
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
        """The instance that takes our calls, and none of a daemon of before any more.

        What it shows when it is asked after this is all that will come of theirs.

        Raises:
            DataPlaneError: it does not answer, or a later daemon has been heard.
        """
        if not self._attached or self._attached != self.instance_id:
            await self._attach()
        return self._attached

    async def _stamp(self, meant_for: str) -> Mapping[str, Any]:
        """What goes into the body besides; the number is taken as the call is decided on."""
        await self.attach()
        if meant_for and meant_for != self._attached:
            raise DataPlaneUnreachable(f"the broker process is {self._attached}, not {meant_for}")
        if self._next_call is None:
            return {}
        number, self._next_call = self._next_call, self._next_call + 1
        return {wire.INSTANCE_ID: self._attached, wire.CALL: number}

    async def _attach(self) -> None:
        """Once for all who wait for it; they are numbered in the order in which they came."""
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
            # Whether anybody else has waited or not.
            attaching.exception()
            raise
        else:
            self._attached, self._next_call = instance_id, first
            attaching.set_result(None)
        finally:
            self._attaching = None

    async def _numbered_from(self) -> tuple[str, int | None]:
        """Who answers, and where our numbers begin; no number from one that knows of none."""
        status, payload = await self._exchange("POST", wire.ATTACH, {}, None)
        if status == 404:
            log.warning("the broker process numbers no calls: a late one may be carried out")
            return _instance_id(payload), None
        payload = self._judged("POST", wire.ATTACH, status, payload)
        with reading(wire.ATTACH):
            return _instance_id(payload), wire.count(payload, wire.FIRST_CALL)

    async def _close_earlier(self, instance_id: str, first: int) -> int:
        """Make sure of the number, which ends those of the daemons before; where to count from.

        A first request that is late, of a daemon that is dead, takes a number and ends nobody's;
        a second one that is late carries the number of its daemon.
        """
        body = {wire.INSTANCE_ID: instance_id, wire.CALL: first}
        answer = await self._exchange("POST", wire.ATTACH, body, None)
        payload = self._judged("POST", wire.ATTACH, *answer)
        with reading(wire.ATTACH):
            counted = wire.count(payload, wire.FIRST_CALL)
        if counted == first:
            return first + 1
        log.warning(
            "the broker process does not refuse what a daemon of before has sent until it gets a "
            "call of this one: a late one may be carried out before"
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
