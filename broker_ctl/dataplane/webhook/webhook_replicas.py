"""The replicas of a broker process over HTTP: the client side of `replica_wire`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from broker_ctl.core.partitions.instructions import ReplicaError, ReplicaState, ReplicaStop
from broker_ctl.dataplane.webhook import replica_wire as wire
from broker_ctl.dataplane.webhook.link import Link, reading
from broker_ctl.dataplane.webhook.replicas import HeldReplica, IsrAnswer, IsrProposal


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
        return await self._send(wire.BECOME_LEADER, wire.encode_instructions(replicas))

    async def become_follower(
        self, replicas: Sequence[ReplicaState], brokers: Mapping[int, str]
    ) -> Sequence[ReplicaError]:
        """Instruct the broker process to follow in these partitions."""
        return await self._send(wire.BECOME_FOLLOWER, wire.encode_instructions(replicas, brokers))

    async def stop_replicas(self, stops: Sequence[ReplicaStop]) -> Sequence[ReplicaError]:
        """Instruct the broker process to stop these replicas."""
        return await self._send(wire.STOP, wire.encode_stops(stops))

    async def replicas(self) -> Sequence[HeldReplica]:
        """All replicas; `DataPlaneRefused` if the broker process keeps none."""
        reply = await self._link.call("GET", wire.REPLICAS)
        with reading(wire.REPLICAS):
            return wire.replicas(reply)

    async def isr_proposals(
        self, lag_time_s: float, throttle: int | None = None
    ) -> Sequence[IsrProposal]:
        """ISR changes that the leaders there request."""
        reply = await self._link.call("GET", wire.wishes_path(lag_time_s, throttle))
        with reading(wire.ISR_WISHES):
            return wire.wishes(reply)

    async def answer_proposals(self, answers: Sequence[IsrAnswer]) -> None:
        """Answer the leaders' proposals."""
        for body in wire.encode_answers(answers):
            await self._link.call("POST", wire.ISR_ANSWERS, body, instance_id=self._instance_id)

    async def _send(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> list[ReplicaError]:
        """Send one call after the other; all may be repeated if a later one fails."""
        found: list[ReplicaError] = []
        for body in bodies:
            reply = await self._link.call("POST", path, body, instance_id=self._instance_id)
            with reading(path):
                found += wire.errors(reply)
        return found
