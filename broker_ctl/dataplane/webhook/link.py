"""Calls to a broker process over HTTP, of both parts of its API.

Calls that change something are numbered, and name the instance that they are meant for: see `wire`.
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
