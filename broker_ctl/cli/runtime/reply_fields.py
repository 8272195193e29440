"""Replies whose fields may have other names: a daemon of another version has answered."""

from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import urlsplit

from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpReply


def answered(reply: HttpReply, asked: str, url: str) -> HttpReply:
    """The reply of the daemon at ``url``; a field that it lacks is told as what it comes of."""
    return _Answered(reply.status, reply.headers, reply.body, asked, urlsplit(url).netloc)


@dataclass(frozen=True, slots=True)
class _Answered(HttpReply):
    asked: str
    daemon: str

    def json(self) -> Any:
        """See `HttpReply.json`; an object that is asked for a field it lacks says whose it is."""
        # No super(): a class with slots is made anew.
        return self._known(HttpReply.json(self))

    def _known(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._known(one) for one in value]
        if isinstance(value, dict):
            fields = {name: self._known(one) for name, one in value.items()}
            return _Fields(fields, self)
        return value

    def lacks(self, name: str) -> HttpError:
        """What a missing field comes of."""
        return HttpError(
            f"the daemon at {self.daemon} has another version than this broker-ctl: its response "
            f"has no {name}; use the broker-ctl installed with the daemon [{self.asked}]"
        )


class _Fields(dict[str, Any]):
    """One object of a reply."""

    def __init__(self, fields: dict[str, Any], reply: _Answered) -> None:
        super().__init__(fields)
        self._reply = reply

    def __missing__(self, name: str) -> NoReturn:
        raise self._reply.lacks(name)
