"""Commands to other brokers over their control HTTP; a broker calls itself the same way."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from broker_ctl.codec import decode_object
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.commands import Command, HandleCommand, Reply
from broker_ctl.errors import CorruptRecord, HttpError, PeerRefused, PeerUnreachable
from broker_ctl.peer_http import PeerHttp, Source

log = logging.getLogger(__name__)


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
    """`POST {web address}/control/v1/{verb}`, answered with JSON or the name of an error."""

    def __init__(self, registry: Registry, http: PeerHttp, own: HandleCommand) -> None:
        self._registry = registry
        self._http = http
        self._own = own

    async def send(self, broker_id: str, command: Command, timeout_s: float) -> Reply:
        """See `Peers.send`."""
        if broker_id == self._registry.broker_id:
            return await self._own(command)
        peer = self._registry.peer(broker_id)
        if peer is None or not (peer.urls.web_url or peer.urls.web_url_tls):
            raise PeerUnreachable(f"{broker_id} is not registered")
        # The node's name is the id; what the payload has as its id, its writer may have invented.
        urls = replace(peer.urls, broker_id=broker_id)
        try:
            reply = await self._http.request(
                "POST",
                urls,
                f"/control/v1/{command.verb}",
                Source.REGISTRATION,
                json=command.to_row(),
                timeout_s=timeout_s,
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
