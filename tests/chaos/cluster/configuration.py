"""A configuration store of its own: one server, the links to it, and what must hold without it.

Policies live there, and nothing that anybody owns: while it is away lookups go on by what was last
read, and what was served is served. Each daemon finds it through a link of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import ZooKeeperServer
from tests.chaos.cluster.links import Link, Links
from tests.chaos.cluster.scoped import Scoped
from tests.support.zookeeper.session_faults import expire_session, password_of

# Far less than a daemon waits for an answer of a store that is away.
ANSWER_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a broker did in time what it had to.

    Attributes:
        fault: that lasted, or had just ended.
        what: it had to give.
    """

    fault: str
    broker_id: str
    what: str
    is_given: bool


def unanswered(answers: Iterable[Answer]) -> Iterator[str]:
    """I6: nothing that was read before needs the configuration store."""
    for one in answers:
        if not one.is_given:
            yield f"I6: {one.fault}: {one.broker_id} had no {one.what} within {ANSWER_S:g} s"


class Configuration(Scoped):
    """Runs the server as long as its scope lasts.

    Attributes:
        answers: of all faults.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._links = Links()
        self._ensemble = Ensemble.of(directory, servers=1, heap_mb=128)
        self.answers: list[Answer] = []

    async def _start(self) -> None:
        await self._scope.enter_async_context(self._links)
        await self._scope.enter_async_context(self._ensemble)

    @property
    def server(self) -> ZooKeeperServer:
        (only,) = self._ensemble.servers
        return only

    def url(self, daemon: int) -> str:
        """Where daemon number ``daemon`` finds it."""
        return f"zk:{self._links.connect_string(daemon, self._ensemble.servers)}"

    def link_of(self, daemon: int) -> Link:
        (link,) = self._links.of_daemon(daemon)
        return link

    def sessions_of(self, daemon: int) -> set[int]:
        """Those that stand: one, or none while it is away."""
        return self.link_of(daemon).proxy.session_ids

    async def heal(self) -> None:
        await self._links.heal_all()

    async def expire(self, session_id: int) -> None:
        """Behind its owner's back."""
        await expire_session(self._ensemble.connect_string, session_id, password_of(session_id))
