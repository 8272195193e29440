"""Commands to other brokers over their control HTTP; a broker calls itself the same way."""

import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from broker_ctl.codec import decode_object
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.commands import PREVIOUS_VERBS, Command, HandleCommand, Reply
from broker_ctl.errors import CorruptRecord, HttpError, PeerRefused, PeerUnreachable
from broker_ctl.http_client import HttpClient

log = logging.getLogger(__name__)

# Statuses for an unknown verb: a broker of the previous release answers without reading the
# command, and a proxy or another server has no such path. Nothing was executed.
_UNKNOWN_VERB: Final = frozenset({"InvalidName", "404"})


class Peers(Protocol):
    """Sends commands to brokers: over HTTP, or in memory in deterministic tests."""

    async def send(self, broker_id: str, command: Command, timeout_s: float) -> Reply:
        """Send one command.

        Raises:
            PeerUnreachable: there was no answer; the command may have been executed.
            PeerRefused: the broker refused it.
        """
        ...


class HttpPeers:
    """`POST {web address}/control/v1/{verb}`, answered with JSON or the name of an error.

    If a broker of the previous release does not know the verb, the command is sent under the old
    one.
    """

    def __init__(self, registry: Registry, http: HttpClient, own: HandleCommand) -> None:
        self._registry = registry
        self._http = http
        self._own = own

    async def send(self, broker_id: str, command: Command, timeout_s: float) -> Reply:
        """See `Peers.send`."""
        if broker_id == self._registry.broker_id:
            return await self._own(command)
        peer = self._registry.peer(broker_id)
        url = peer and (peer.urls.web_url or peer.urls.web_url_tls)
        if not url:
            raise PeerUnreachable(f"{broker_id} is not registered")
        try:
            return await self._post(broker_id, url, command.verb, command, timeout_s)
        except PeerRefused as refused:
            previous = PREVIOUS_VERBS.get(command.verb)
            if previous is None or refused.kind not in _UNKNOWN_VERB:
                raise
            return await self._post(broker_id, url, previous, command, timeout_s)

    async def _post(
        self, broker_id: str, url: str, verb: str, command: Command, timeout_s: float
    ) -> Reply:
        try:
            reply = await self._http.request(
                "POST", f"{url}/control/v1/{verb}", json=command.to_row(), timeout_s=timeout_s
            )
            row = self._row(reply.body)
        except HttpError as error:
            raise PeerUnreachable(f"{broker_id}: {error}") from error
        if reply.status != 200:
            kind, reason = str(row.get("error", reply.status)), str(row.get("reason", ""))
            raise PeerRefused(kind, f"{broker_id}: {reason}")
        return row

    @staticmethod
    def _row(body: bytes) -> Mapping[str, Any]:
        try:
            return decode_object(body)
        except CorruptRecord as error:
            raise HttpError(f"the reply is not a JSON object: {error}") from error
