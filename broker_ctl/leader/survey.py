"""Taking the `ClusterView`: one moment of the cluster out of reports, rings, moves and owner nodes.

Reports say who owns what. Where they cannot (two brokers report a bundle, or none does, or we just
gave it to somebody) the owner node is asked.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from broker_ctl.core.bundle import Bundle
from broker_ctl.core.load import max_usage
from broker_ctl.core.names import Namespace
from broker_ctl.core.namespace import Ring
from broker_ctl.core.snapshot import snapshot
from broker_ctl.core.view import BrokerView, BundleView, ClusterView, InFlight
from broker_ctl.errors import CorruptRecord, NamespaceMissing, StoreError
from broker_ctl.leader.bundle_memory import BundleMemory
from broker_ctl.leader.load_board import LoadBoard
from broker_ctl.leader.parts import LeaderParts

log = logging.getLogger(__name__)

_READS_AT_ONCE: Final = 256


class Survey:
    """Takes views for one leading.

    Attributes:
        latest: the newest view.
        latest_ms: when it was taken, for people.
    """

    def __init__(
        self, parts: LeaderParts, epoch: int, board: LoadBoard, memory: BundleMemory
    ) -> None:
        self._parts = parts
        self._epoch = epoch
        self._board = board
        self._memory = memory
        self.latest: ClusterView | None = None
        self.latest_ms = 0

    async def take(self, draw_seed: int = 0) -> ClusterView:
        """A new view.

        Raises:
            StoreError: a ring or an owner node could not be read.
        """
        rules = self._parts.rules()
        self._board.forget_silent(rules.forget_s)
        looked_at = await self._rings()
        # While the rings were read, reports may have come in: what is in a namespace that was not
        # looked at waits for the next view.
        for parent, children in self._board.reconcile(looked_at).items():
            self._memory.split(parent, children)
        rings = {name: ring for name, ring in looked_at.items() if ring is not None}
        owners = await self._owners(rings)
        now_s = self._parts.clock.now_s()
        self._memory.keep_only(self._board.loads)
        self.latest = snapshot(
            epoch=self._epoch,
            taken_at_s=now_s,
            draw_seed=draw_seed,
            brokers=self._brokers(now_s),
            bundles=[self._bundle(bundle, owner) for bundle, owner in owners.items()],
            rings=rings.values(),
            moves=[
                InFlight(record.move.bundle, record.move.from_broker, record.move.to_broker)
                for record in self._parts.moves.all
            ],
            splitting=self._memory.splitting,
            settled=self._memory.settled(),
        )
        self.latest_ms = self._parts.clock.wall_ms()
        return self.latest

    def _brokers(self, now_s: float) -> list[BrokerView]:
        """Live brokers that have reported. Others can be given no orders, or judged."""
        rules, reports = self._parts.rules(), self._board.reports
        return [
            BrokerView(
                broker_id,
                report.data.load,
                max_usage(report.data.load.usage, rules.weights),
                is_draining=peer.registration.is_draining,
                age_s=now_s - report.received_s,
            )
            for broker_id, peer in self._parts.registry.peers.items()
            if (report := reports.get(broker_id)) is not None
        ]

    def _bundle(self, bundle: Bundle, owner: str | None) -> BundleView:
        remembered = self._memory.of(bundle)
        return BundleView(
            bundle,
            owner,
            self._board.load_of(bundle),
            last_unloaded_s=remembered.unloaded_s,
            last_split_s=remembered.split_s,
        )

    async def _rings(self) -> Mapping[Namespace, Ring | None]:
        """Of every namespace that was heard of; None where it is gone."""
        rings: dict[Namespace, Ring | None] = {}
        for namespace in sorted({bundle.namespace for bundle in self._board.loads}):
            try:
                rings[namespace] = await self._parts.ring_of(namespace)
            except NamespaceMissing:
                rings[namespace] = None
            except CorruptRecord as error:
                log.warning("left %s out: %s", namespace, error)
        return rings

    async def _owners(self, rings: Mapping[Namespace, Ring]) -> Mapping[Bundle, str | None]:
        """Whose each known bundle is."""
        reporters = self._board.reporters()
        live = self._parts.registry.peers.keys()
        owners: dict[Bundle, str | None] = {}
        doubtful: list[Bundle] = []
        for bundle in self._board.loads:
            ring = rings.get(bundle.namespace)
            if ring is None or bundle not in ring:
                continue
            said = [broker_id for broker_id in reporters.get(bundle, ()) if broker_id in live]
            if len(said) == 1 and self._memory.of(bundle).given_to in {None, said[0]}:
                owners[bundle] = said[0]
                self._memory.reported(bundle, said[0])
            else:
                doubtful.append(bundle)
        owners.update(await self._read_owners(doubtful))
        return owners

    async def _read_owners(self, bundles: Sequence[Bundle]) -> Mapping[Bundle, str | None]:
        """By owner nodes; a bundle whose node does not decode is left out."""
        owners: dict[Bundle, str | None] = {}
        failures: list[StoreError] = []
        waiting = iter(bundles)

        async def work() -> None:
            for bundle in waiting:
                try:
                    node = await self._parts.owner_of(bundle)
                except CorruptRecord as error:
                    log.warning("left %s out: %s", bundle, error)
                    continue
                except StoreError as error:
                    failures.append(error)
                    return
                owners[bundle] = None if node is None else node.urls.broker_id

        async with asyncio.TaskGroup() as group:
            for number in range(min(_READS_AT_ONCE, len(bundles))):
                group.create_task(work(), name=f"read owners {number}")
        if failures:
            raise failures[0]
        self._note(owners)
        return owners

    def _note(self, owners: Mapping[Bundle, str | None]) -> None:
        for bundle, broker_id in owners.items():
            if broker_id is None:
                self._memory.free(bundle, self._board.last_reporter(bundle))
            else:
                self._memory.owned(bundle, broker_id)
                self._board.note_owned(bundle)
