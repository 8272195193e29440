"""Commands from broker to broker without a network, which a test can cut anywhere."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from broker_ctl.core.model.commands import Command, HandleCommand, Reply
from broker_ctl.errors import BrokerCtlError, PeerError, PeerRefused, PeerUnreachable

BEFORE, AFTER = "before", "after"


@dataclass
class Cut:
    """Where orders stop: before a broker carries one out, or after, when it should answer."""

    verb: str
    phase: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    resumed: asyncio.Event = field(default_factory=asyncio.Event)


class InMemoryPeers:
    """`coordination.peers.Peers`; errors arrive in the words in which HTTP would bring them.

    Attributes:
        sent: every order that was given, as ``verb broker``, in order.
        losses: how many of the next answers to a verb are lost, by phase and verb.
        refusals: how many of the next orders of a verb a broker refuses, by broker and verb.
    """

    def __init__(self) -> None:
        self._brokers: dict[str, HandleCommand] = {}
        self.sent: list[str] = []
        self.losses: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.refusals: defaultdict[tuple[str, str], list[PeerRefused]] = defaultdict(list)
        self.on_order: Callable[[str, Command], None] = lambda _broker_id, _order: None
        self._cut: Cut | None = None

    def join(self, broker_id: str, orders: HandleCommand) -> None:
        self._brokers[broker_id] = orders

    def leave(self, broker_id: str) -> None:
        self._brokers.pop(broker_id, None)

    def cut_at(self, verb: str, phase: str) -> Cut:
        """From now on the sender of such a command waits at that point until it is resumed."""
        self._cut = Cut(verb, phase)
        return self._cut

    def heal(self) -> None:
        self._cut = None

    async def send(self, broker_id: str, order: Command, timeout_s: float) -> Reply:
        assert timeout_s > 0
        self.sent.append(f"{order.verb} {broker_id}")
        self.on_order(broker_id, order)
        await self._pass(BEFORE, order)
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise PeerUnreachable(f"{broker_id} is gone")
        if self.refusals[broker_id, order.verb]:
            raise self.refusals[broker_id, order.verb].pop(0)
        try:
            reply = await broker(order)
        except PeerError:
            raise
        except BrokerCtlError as error:
            raise PeerRefused(type(error).__name__, str(error)) from error
        await self._pass(AFTER, order)
        return reply

    async def _pass(self, phase: str, order: Command) -> None:
        cut = self._cut
        if cut is not None and (cut.verb, cut.phase) == (order.verb, phase):
            cut.reached.set()
            await cut.resumed.wait()
        if self.losses[phase, order.verb]:
            self.losses[phase, order.verb] -= 1
            raise PeerUnreachable(f"{order.verb}: lost {phase} it was carried out")
