"""Sends the commands of one term to brokers."""

import asyncio

from broker_ctl.coordination.election.leadership import Leadership
from broker_ctl.coordination.membership.peers import Peers
from broker_ctl.core.model.commands import Command, Reply
from broker_ctl.errors import BrokerCtlError, PeerError, PeerRefused, PeerUnreachable
from broker_ctl.tracing.spans import Kind, child_span


class Dispatch:
    """Sends commands while this broker leads; none while its leadership is suspended."""

    def __init__(self, peers: Peers, leadership: Leadership) -> None:
        self._peers = peers
        self._leadership = leadership

    async def send(self, broker_id: str, order: Command, timeout_s: float) -> Reply:
        """Send one command; this broker answers its own commands like any other broker.

        Raises:
            AuthorityLost: this broker does not lead any more; nothing was sent.
            PeerUnreachable: there was no answer in time; whether it was executed is unknown.
            PeerRefused: the broker refused.
        """
        await self._leadership.wait_deciding()
        try:
            with child_span(f"command {order.verb}", Kind.CLIENT, peer=broker_id):
                async with asyncio.timeout(timeout_s):
                    return await self._peers.send(broker_id, order, timeout_s)
        except TimeoutError as error:
            text = f"{broker_id}: no answer to {order.verb} within {timeout_s:.1f} s"
            raise PeerUnreachable(text) from error
        except PeerError:
            raise
        except BrokerCtlError as error:
            raise PeerRefused(type(error).__name__, f"{broker_id}: {error}") from error
