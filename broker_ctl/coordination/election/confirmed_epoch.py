"""The newest epoch of an election that the store has confirmed (docs: i3-epochs).

Commands name the epoch of their sender. Only the store knows which epochs there have been: a broker
that believed a made-up one would refuse its real leader until a restart.
"""

import logging
from typing import Final

from broker_ctl.errors import Fenced
from broker_ctl.store.interface import Check, MetadataStore, Operation
from broker_ctl.store.paths import ElectionName

log = logging.getLogger(__name__)

# A sender may make up any number of epochs.
_MAX_LOGGED: Final = 10


class ConfirmedEpoch:
    """What one broker knows of the epochs of one election; survives its sessions.

    Attributes:
        newest: the newest epoch that the store has confirmed; 0: none yet.
    """

    def __init__(self, store: MetadataStore, election_name: ElectionName) -> None:
        self._store = store
        self._path = election_name.epoch_path
        self._logged = 0
        # Of the node that was read. One that was deleted and made again begins at 0.
        self._czxid = 0
        self.newest = 0

    def check(self, epoch: int) -> Operation:
        """For a transaction: the epoch is the newest as the transaction is executed."""
        return Check(self._path, epoch)

    async def read(self) -> None:
        """Read the newest epoch: it is the data version of its node.

        Raises:
            StoreError: the store did not answer.
        """
        stat = await self._store.exists(self._path)
        if stat is None:
            return
        if stat.czxid > self._czxid:
            if stat.version < self.newest:
                log.warning(
                    "%s was deleted and made again: its epochs begin again, and are at %d; %d was "
                    "seen at the former node",
                    self._path,
                    stat.version,
                    self.newest,
                )
            self._czxid, self.newest = stat.czxid, stat.version
        elif stat.czxid == self._czxid:
            self.newest = max(self.newest, stat.version)

    async def confirm(self, epoch: int) -> None:
        """Make sure that there was an election at this epoch or a later one.

        Another epoch than the newest is compared with the node: an older one may be the first of a
        node that was made again.

        Raises:
            Fenced: there was none.
            StoreError: the store did not answer.
        """
        if epoch == self.newest:
            return
        await self.read()
        if epoch != self.newest:
            # The server of this broker may be behind the election.
            await self._store.sync(self._path)
            await self.read()
        if epoch <= self.newest:
            return
        if self._logged < _MAX_LOGGED:
            self._logged += 1
            log.warning(
                "refusing a command at epoch %d: the newest at %s is %d, so no elected broker sent "
                "it; look for the sender, which has a token of this cluster if one is needed",
                epoch,
                self._path,
                self.newest,
            )
        raise Fenced(f"epoch {epoch} is unknown: the newest at {self._path} is {self.newest}")

    def require_newest(self, epoch: int, subject: str) -> None:
        """Refuse the epoch of a deposed leader; ``subject`` begins the reason.

        Raises:
            Fenced: a newer epoch is known.
        """
        if epoch < self.newest:
            raise Fenced(f"{subject} {epoch} is stale: {self.newest} was seen")
