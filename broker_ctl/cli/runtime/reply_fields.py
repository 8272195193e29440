"""Replies whose fields may have other names: a daemon of another version has answered."""

from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import urlsplit

from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpReply


def explain_missing_fields(reply: HttpReply, request: str, url: str) -> HttpReply:
    """The reply of the daemon at ``url``; a field that it lacks is told as what it comes of."""
    return _DaemonReply(reply.status, reply.headers, reply.body, request, urlsplit(url).netloc)


@dataclass(frozen=True, slots=True)
class _DaemonReply(HttpReply):
    request: str
    daemon: str

    def json(self) -> Any:
        """See `HttpReply.json`; an object that is asked for a field it lacks says whose it is."""
        # No super(): a class with slots is made anew.
        return self._with_fields(HttpReply.json(self))

    def _with_fields(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._with_fields(one) for one in value]
        if isinstance(value, dict):
            fields = {name: self._with_fields(one) for name, one in value.items()}
            return _Fields(fields, self)
        return value

    def missing_field(self, name: str) -> HttpError:
        """What a missing field comes of."""
        return HttpError(
            f"the daemon at {self.daemon} has another version than this broker-ctl: its response "
            f"has no {name}; use the broker-ctl installed with the daemon [{self.request}]"
        )


class _Fields(dict[str, Any]):
    """One object of a reply."""

    def __init__(self, fields: dict[str, Any], reply: _DaemonReply) -> None:
        super().__init__(fields)
        self._reply = reply

    def __missing__(self, name: str) -> NoReturn:
        raise self._reply.missing_field(name)
