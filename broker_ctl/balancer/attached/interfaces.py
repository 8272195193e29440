"""The requests to the admin API of a Pulsar cluster that an attached leader needs."""

from typing import Protocol

from broker_ctl.core.model.bundle import Bundle


class Finding(Protocol):
    """A setting of the cluster that interferes with this balancer."""

    @property
    def key(self) -> str:
        """The key of the setting."""
        ...

    @property
    def value(self) -> str:
        """Its current value."""
        ...

    @property
    def why(self) -> str:
        """Its effect on bundles, in one sentence."""
        ...

    @property
    def is_dynamic(self) -> bool:
        """Whether it can be switched off at run time; otherwise brokers must be restarted."""
        ...

    @property
    def is_rival(self) -> bool:
        """Whether it moves or splits bundles; otherwise it makes requests ineffective."""
        ...

    @property
    def command(self) -> str:
        """The exact command with which an operator turns it off."""
        ...


class AdminApi(Protocol):
    """A cluster's admin API; each request has a deadline of its own."""

    async def unload(self, bundle: Bundle, destination: str) -> None:
        """Make the owner release a bundle, which ``destination`` then acquires.

        The answer does not say where the bundle is now: its owner node does.

        Raises:
            PeerRefused: the cluster refused, with its reason; nothing was done.
            PeerUnreachable: there was no answer, or one that does not say whether it was executed.
        """
        ...

    async def split(self, bundle: Bundle, algorithm: str, boundaries: tuple[int, ...]) -> None:
        """Make the owner split a bundle; the children stay there.

        ``algorithm`` is Pulsar's name; ``boundaries`` are for ``specified_positions_divide`` only.

        Raises:
            PeerRefused: the cluster refused, with its reason; nothing was done.
            PeerUnreachable: there was no answer, or one that does not say whether it was executed.
        """
        ...

    async def cluster_balancer(self) -> tuple[Finding, ...]:
        """Parts of the cluster's balancer that are on at any broker; none: all of it is off.

        Raises:
            PeerRefused: the settings of the cluster cannot be read.
            PeerUnreachable: no broker answers.
        """
        ...
