"""The session of a client: from start to close, its state, its events, and what it holds."""

import random
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self

from broker_ctl.clock import Clock, SystemClock
from broker_ctl.coordination.heartbeats import HeartbeatNode
from broker_ctl.coordination.session import AuthorityMode, SessionWatcher
from broker_ctl.core.machines.session import SessionState
from broker_ctl.errors import BrokerCtlError, SessionExpired, StoreClosed, StoreError
from broker_ctl.retry import is_undecided
from broker_ctl.store.interface import CreateMode, MetadataStore
from broker_ctl.tasks import TaskScope
from broker_ctl.zookeeper.events import SessionEvents
from broker_ctl.zookeeper.holds import Holds


class ClientStore(MetadataStore, Protocol):
    """A store with a session of its own."""

    @property
    def ended_by(self) -> StoreError | None:
        """Why the session ended for good; None while requests can be sent."""
        ...

    async def start(self) -> None:
        """Connect in the background."""
        ...


class ClientSession:
    """What recipes need of a client: its store, and what it holds.

    Args:
        store: not started yet.
        tick_time_s: tickTime of the servers.
        lease_path: below it each client that holds something writes an ephemeral node of its own.
        clock: of leases.
        rng: of pauses before another attempt.
        new_id: of a node whose name tells whose it is; no two are the same.
    """

    def __init__(
        self,
        store: ClientStore,
        *,
        tick_time_s: float = 2.0,
        lease_path: str = "/leases",
        clock: Clock | None = None,
        rng: random.Random | None = None,
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self.store: Final = store
        self.clock: Final = clock or SystemClock()
        self.rng: Final = rng or random.SystemRandom()
        self.new_id: Final = new_id
        node = HeartbeatNode(
            f"{lease_path}/{new_id()}", lambda count: b"%d" % count, CreateMode.EPHEMERAL
        )
        self.session: Final = SessionWatcher(
            store,
            self.clock,
            node=node,
            mode=AuthorityMode.LEASE,
            tick_s=tick_time_s,
            rng=self.rng,
        )
        self.tasks: Final = TaskScope("zookeeper client")
        self.holds: Final = Holds(store, self.session, self.clock, self.tasks)

    # From start to close.

    async def start(self) -> Self:
        """Connect; returns once there is a session.

        Raises:
            AuthFailed: the servers refuse the credentials.
            RetriesUsedUp: no session within the attempts that `connect` allows.
        """
        self.session.start()
        await self.store.start()
        await self.store.wait_connected()
        return self

    async def close(self) -> None:
        """End the session: its ephemeral nodes are gone at once, and all that is held is lost."""
        await self.tasks.close()
        await self.store.close()
        await self.session.close()

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # The session.

    @property
    def state(self) -> SessionState:
        """CONNECTED, SUSPENDED (no connection), LOST (the lease is over), EXPIRED or CLOSED."""
        return self.session.state

    @property
    def session_id(self) -> int:
        """The current session, 0 while there is none."""
        return self.store.session_id

    @property
    def session_timeout_s(self) -> float:
        """As the servers have granted it."""
        return self.store.session_timeout_s

    @property
    def has_ended(self) -> bool:
        """Whether there will be no session any more."""
        return self.session.state is SessionState.CLOSED

    def check_open(self) -> None:
        """Raise what has ended the session for good.

        Raises:
            StoreClosed: this process has closed the client.
            SessionError: what else has, such as `AuthFailed`.
        """
        if self.has_ended:
            raise self.store.ended_by or StoreClosed("the client is closed")

    def may_answer(self, error: BrokerCtlError) -> bool:
        """Whether a call that has failed so is made again: this session or the next will answer.

        Only for calls that read before they write, or that change nothing when made twice.
        """
        is_worth_it = is_undecided(error) or isinstance(error, SessionExpired)
        return is_worth_it and not self.has_ended

    def events(self) -> SessionEvents:
        """What happens to the session: ``async with client.events() as events``, then iterate."""
        return SessionEvents(self.store)
