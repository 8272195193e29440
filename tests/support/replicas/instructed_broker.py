"""A broker that takes instructions, over a store and a broker process in memory."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from broker_ctl.broker.replicas.instructions import (
    FailedReplicas,
    Handled,
    ReplicaInstructions,
    StrayReplicas,
)
from broker_ctl.coordination.election import ConfirmedEpoch
from broker_ctl.core.partitions.instructions import ReplicaState, ReplicaStop
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from tests.support.clusters.sessions import parties
from tests.support.replicas.instructions import elect_controllers, instruct
from tests.support.replicas.replica_plane import InMemoryReplicas

EPOCH = 7


class Broker:
    """Broker 1, registered at broker epoch 7."""

    def __init__(self, store: MetadataStore) -> None:
        self.epoch = EPOCH
        self.plane = InMemoryReplicas(1)
        self.store = store
        self.failed = FailedReplicas(store, 1, rng=random.Random(1))
        self.controller_epoch = ConfirmedEpoch(store, paths.CONTROLLER_ELECTION)
        self.instructions = ReplicaInstructions(
            self.plane,
            1,
            lambda: self.epoch,
            self.controller_epoch,
            strays=StrayReplicas(store, 1),
            failed=self.failed,
        )

    async def handle(self, *updates: ReplicaState | ReplicaStop, **more: Any) -> Handled:
        instruction = instruct(*updates, **{"broker_epoch": EPOCH, **more})
        return await self.instructions.handle(instruction)

    async def refusals(self, *updates: ReplicaState | ReplicaStop, **more: Any) -> dict[str, str]:
        """Why each of them was refused."""
        obeyed = await self.handle(*updates, **more)
        return {str(partition): why for partition, why in obeyed.errors}


@asynccontextmanager
async def broker() -> AsyncIterator[Broker]:
    async with parties() as (party,):
        await elect_controllers(party.store, 1)
        yield Broker(party.store)


@asynccontextmanager
async def informed_broker() -> AsyncIterator[Broker]:
    """A broker that knows the addresses of the others already."""
    async with broker() as one:
        await one.handle()
        one.plane.calls.clear()
        yield one
