"""One lock: ownership of one ephemeral node."""

from collections.abc import Callable

from broker_ctl.core.machines.lock import Identity, State
from broker_ctl.store.interface import Stat, Versioned


class Lock:
    """One generation of a lock; ``state`` says whether it is still held."""

    __slots__ = ("identity", "on_lost", "path", "state", "version")

    def __init__(
        self,
        path: str,
        stat: Stat,
        on_lost: "Callable[[Lock], None]",
    ) -> None:
        self.path = path
        self.identity = Identity(stat.czxid, stat.ephemeral_owner)
        self.version = stat.version
        self.on_lost = on_lost
        self.state = State.HELD

    @property
    def token(self) -> int:
        """The fencing token; each later owner has a higher one."""
        return self.identity.czxid

    @property
    def has_ended(self) -> bool:
        """Whether this generation was lost or released."""
        return self.state in {State.LOST, State.RELEASED}

    def is_held_by(self, node: Versioned | None) -> bool:
        """Whether ``node`` is the node of this lock."""
        return (
            node is not None
            and Identity(node.stat.czxid, node.stat.ephemeral_owner) == self.identity
        )
