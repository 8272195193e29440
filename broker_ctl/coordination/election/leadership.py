"""One leadership, as the leader sees it: whether it may decide now.

A leader whose connection is gone decides nothing: another one may have been elected meanwhile. It
is not deposed either: when the connection is back and the election node is still its own, it leads
on under the same epoch. So what it was about to do waits (docs: pulsar-leader-election).
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum, auto

from broker_ctl.errors import AuthorityLost, Fenced, LeadershipSuspended, MultiFailed
from broker_ctl.store.interface import Check, MetadataStore, Operation, Result
from broker_ctl.store.paths import ElectionName


class _Phase(Enum):
    DECIDING = auto()
    SUSPENDED = auto()
    ENDED = auto()


class Leadership:
    """One leadership; the election suspends, resumes and ends it.

    Args:
        election_name: what is led.
        epoch: of this leadership; no other has the same.
        check_authority: raises `AuthorityLost` where the lease has run out.
    """

    def __init__(
        self, election_name: ElectionName, epoch: int, check_authority: Callable[[], None]
    ) -> None:
        self.election_name = election_name
        self.epoch = epoch
        self._check_authority = check_authority
        self._phase = _Phase.DECIDING
        self._changed = asyncio.Event()

    @property
    def guard(self) -> Operation:
        """The first operation of this leader's transactions: fails once another was elected."""
        return Check(self.election_name.epoch_path, self.epoch)

    async def write(self, store: MetadataStore, *operations: Operation) -> Sequence[Result]:
        """Write all operations or none, under the epoch.

        Raises:
            Fenced: another leader was elected.
            MultiFailed: an operation was refused; its index counts the guard as 0.
            StoreError: nothing was written, or the nodes have to show it.
        """
        try:
            return (await store.multi([self.guard, *operations]))[1:]
        except MultiFailed as error:
            if error.index == 0:
                raise Fenced(f"another leader was elected: {error}") from error
            raise

    def check(self) -> None:
        """Check authority before a decision that cannot wait.

        Raises:
            LeadershipSuspended: the connection is gone; this leadership may go on or not.
            AuthorityLost: it has ended, or the lease has run out.
        """
        self._check_lasting()
        if self._phase is _Phase.SUSPENDED:
            raise LeadershipSuspended(
                f"{self.election_name.name}: no connection at epoch {self.epoch}"
            )

    async def wait_deciding(self) -> None:
        """Return once a decision, command or write may be made.

        Raises:
            AuthorityLost: this leadership has ended, or the lease has run out.
        """
        while True:
            self._check_lasting()
            if self._phase is _Phase.DECIDING:
                return
            await self._changed.wait()

    def _check_lasting(self) -> None:
        if self._phase is _Phase.ENDED:
            raise AuthorityLost(
                f"{self.election_name.name} is not led from here at epoch {self.epoch}"
            )
        self._check_authority()

    # Called by the election.

    def suspend(self) -> None:
        """The connection was lost."""
        self._enter(_Phase.SUSPENDED)

    def resume(self) -> None:
        """The election node was read on a new connection, and is still ours."""
        self._enter(_Phase.DECIDING)

    def end(self) -> None:
        """The term has ended for good."""
        self._enter(_Phase.ENDED)

    def _enter(self, phase: _Phase) -> None:
        if self._phase is not _Phase.ENDED:
            self._phase = phase
            self._changed.set()
            self._changed = asyncio.Event()
