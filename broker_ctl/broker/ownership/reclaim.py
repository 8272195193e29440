"""Reclaim: re-acquisition of all bundles after a session expiry (docs: pip-57, i7-reclaim-grace).

The data plane keeps the topics open, without authority. Before the new session grants authority,
each bundle is renewed under its new token, or fenced if another broker owns it: so the data plane
never acts under a token of an ended session.

A restarted daemon does not remember its bundles. It reclaims, in the same way, those that its data
plane still serves, and those of a session that it resumed (`stopMode=keep`).
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from broker_ctl.broker.namespaces.namespaces import Namespaces
from broker_ctl.broker.ownership.held_bundles import OwnedBundle, OwnedBundles
from broker_ctl.broker.ownership.reacquire import BulkReacquirer
from broker_ctl.broker.ownership.unfinished_splits import finish_ring_changes
from broker_ctl.core.history.decisions import OwnershipCause
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import DataPlaneError, HistoryBehind
from broker_ctl.instruments.balancing import OwnershipInstruments
from broker_ctl.retry import is_any, retry
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.request_class import RequestClass, requests_as

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReclaimResult:
    """Counts of one reclaim.

    Attributes:
        kept, lost: number of bundles.
        late: bundles that come back once an earlier session of this broker has ended.
        took_s: time from the start of the session until the last bundle was served or given up.
    """

    kept: int
    lost: int
    took_s: float = 0.0
    late: tuple[Bundle, ...] = ()


class Reclaim:
    """Runs at the start of each session, before the broker registers and any other act starts."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        owned_bundles: OwnedBundles,
        namespaces: Namespaces,
        reacquirer: BulkReacquirer,
        dataplane: DataPlane,
        instruments: OwnershipInstruments,
        rng: random.Random,
    ) -> None:
        self._rng = rng
        self._store = store
        self._owned_bundles = owned_bundles
        self._namespaces = namespaces
        self._reacquirer = reacquirer
        self._dataplane = dataplane
        self._instruments = instruments

    async def run(self, epoch: int) -> ReclaimResult:
        """Re-acquire all bundles that are RECLAIMING.

        Returns once every loaded bundle has a token of this session.

        Raises:
            HistoryBehind: a bundle is loaded under a token that ZooKeeper has not reached yet.
        """
        with requests_as(RequestClass.BULK):
            return await self._run(epoch)

    async def _run(self, epoch: int) -> ReclaimResult:
        began_s = asyncio.get_running_loop().time()
        loaded = await self._loaded()
        self._check_history(loaded)
        await self._settle_ring_changes()
        self._add_missing(await self._own_nodes())
        self._add_missing(loaded)
        await finish_ring_changes(self._dataplane, self._owned_bundles, loaded)
        wanted = self._owned_bundles.in_state(BundleState.RECLAIMING)
        late = await self._reacquirer.reacquire(wanted, epoch)
        kept = sum(held.state is BundleState.OWNED for held in wanted)
        for held in self._owned_bundles.in_state(BundleState.RECLAIMING):
            self._owned_bundles.discard(held)
        await self._fence_unowned()
        took_s = asyncio.get_running_loop().time() - began_s
        lost = len(wanted) - kept - len(late)
        if wanted:
            self._count(kept, lost, len(late), took_s)
            log.info(
                "session %d: kept %d of %d bundles in %.3f s, at most %d acquisitions at once",
                *(epoch, kept, len(wanted), took_s, self._reacquirer.peak_in_flight),
            )
        return ReclaimResult(kept, lost, took_s, tuple(held.bundle for held in late))

    def _count(self, kept: int, lost: int, late: int, took_s: float) -> None:
        counted = self._instruments
        counted.reclaimed.add("kept", amount=kept)
        counted.reclaimed.add("late", amount=late)
        counted.lost.add("not_reclaimed", amount=lost)
        counted.reclaim_s.observe(took_s)

    # Bundles of the earlier session.

    async def _settle_ring_changes(self) -> None:
        """Find the result of a split or merge that was unanswered when the session ended.

        The server has closed that session, so its requests were executed before that or never: the
        ring shows which.
        """
        unanswered: dict[tuple[Bundle, ...], list[OwnedBundle]] = {}
        for held in self._owned_bundles.in_state(BundleState.RECLAIMING):
            if held.replacements:
                unanswered.setdefault(held.replacements, []).append(held)
        if not unanswered:
            return
        namespaces = [bundles[0].namespace for bundles in unanswered]
        rings = await retry(
            partial(self._namespaces.rings, namespaces),
            "cannot read the rings of unanswered splits and merges",
            rng=self._rng,
        )
        for new, old in unanswered.items():
            for held in old:
                held.replacements = ()
            snapshot = rings.get(new[0].namespace)
            if snapshot is not None and all(bundle in snapshot.ring for bundle in new):
                made = ", ".join(str(bundle.range) for bundle in new)
                log.info("%s became %s as the session ended", old[0].bundle, made)
                self._owned_bundles.replace(old, [_to_reclaim(bundle) for bundle in new])

    async def _own_nodes(self) -> list[Bundle]:
        """List nodes of this very session, which an earlier process created."""
        found = await retry(
            partial(self._store.ephemerals, paths.OWNERSHIP),
            "cannot list the owner nodes of this session",
            rng=self._rng,
        )
        bundles = map(paths.owned_bundle, found)
        return [bundle for bundle in bundles if bundle is not None]

    async def _loaded(self) -> dict[Bundle, int]:
        """List the bundles that the data plane serves; waits until it answers."""
        loaded = await retry(
            self._dataplane.loaded,
            "cannot list the loaded bundles",
            rng=self._rng,
            judge=is_any(DataPlaneError),
            level=logging.WARNING,
        )
        return dict(loaded)

    def _check_history(self, loaded: Mapping[Bundle, int]) -> None:
        """Check that all loaded tokens are in the past of ZooKeeper, also after a restart.

        This session has written and got an answer, so every token handed out before is lower than
        its zxid.
        """
        bundle, token = max(loaded.items(), key=itemgetter(1), default=(None, 0))
        if token > (zxid := self._store.last_zxid):
            raise HistoryBehind(
                f"the history of ZooKeeper ends at 0x{zxid:x}, but {bundle} is loaded under token "
                f"0x{token:x}: the servers were restored from a copy, or are others; see "
                "docs/how-to/restored-zookeeper.md"
            )

    def _add_missing(self, bundles: Iterable[Bundle]) -> None:
        held = self._owned_bundles.held
        for bundle in bundles:
            if bundle in held:
                continue
            # An interrupted split or merge may have left the replaced bundles loaded: they end when
            # the held ones are loaded in their place.
            if not any(self._owned_bundles.overlapping(bundle)):
                self._owned_bundles.add(_to_reclaim(bundle))

    async def _fence_unowned(self) -> None:
        """Fence, until it succeeds, bundles that are loaded and not held under that token."""
        await retry(
            self._fence_listed,
            "cannot fence all bundles that are loaded but not owned",
            rng=self._rng,
            judge=is_any(DataPlaneError),
            level=logging.WARNING,
        )

    async def _fence_listed(self) -> None:
        while strangers := [
            bundle
            for bundle, token in (await self._loaded()).items()
            if not self._is_known(bundle, token)
        ]:
            log.warning("fencing %d bundles that are loaded but not owned", len(strangers))
            failures: list[DataPlaneError] = []
            for bundle in strangers:
                try:
                    await self._dataplane.fence(bundle)
                except DataPlaneError as error:
                    failures.append(error)
            if failures:
                raise failures[0]

    def _is_known(self, bundle: Bundle, token: int) -> bool:
        held = self._owned_bundles.held.get(bundle)
        if held is None:
            return False
        return held.state is not BundleState.OWNED or held.token == token


def _to_reclaim(bundle: Bundle) -> OwnedBundle:
    """A bundle of an earlier session, to be re-acquired."""
    return OwnedBundle(bundle, BundleState.RECLAIMING, cause=OwnershipCause.EXPIRY)
