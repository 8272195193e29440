"""The calls to a broker process behind HTTP, whichever part of its API they belong to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from broker_ctl.clock import Clock
from broker_ctl.errors import DataPlaneFenced, DataPlaneRefused, DataPlaneUnreachable, HttpError
from broker_ctl.http import HttpClient, HttpReply

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
