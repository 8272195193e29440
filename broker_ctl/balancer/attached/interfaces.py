"""The requests to the admin API of a Pulsar cluster that an attached leader needs."""

from typing import Protocol

from broker_ctl.core.model.bundle import Bundle


class Finding(Protocol):
    """One automatism of the cluster's own that gets in the way of ours."""

    @property
    def key(self) -> str:
        """The setting that switches it."""
        ...

    @property
    def value(self) -> str:
        """What it is set to now."""
        ...

    @property
    def why(self) -> str:
        """What it does to bundles, in one sentence."""
        ...

    @property
    def is_dynamic(self) -> bool:
        """Whether it can be switched off at run time; otherwise brokers must be restarted."""
        ...

    @property
    def is_rival(self) -> bool:
        """Whether it moves or splits by itself; otherwise it makes acting useless."""
        ...

    @property
    def command(self) -> str:
        """The exact line that an operator would type to switch it off."""
        ...


class AdminApi(Protocol):
    """A cluster's admin API; each request has a deadline of its own."""

    async def unload(self, bundle: Bundle, destination: str) -> None:
        """Have the owner give a bundle up, to be taken by ``destination``.

        That it is answered says nothing of where the bundle is now: its owner node does.

        Raises:
            PeerRefused: the cluster said no, with its reason; nothing was done.
            PeerUnreachable: no answer, or one that leaves it open whether it was carried out.
        """
        ...

    async def split(self, bundle: Bundle, algorithm: str, boundaries: tuple[int, ...]) -> None:
        """Have the owner split a bundle, children staying where they are.

        ``algorithm`` is Pulsar's name, ``boundaries`` go with ``specified_positions_divide`` only.

        Raises:
            PeerRefused: the cluster said no, with its reason; nothing was done.
            PeerUnreachable: no answer, or one that leaves it open whether it was carried out.
        """
        ...

    async def cluster_balancer(self) -> tuple[Finding, ...]:
        """Parts of the cluster's balancer that are on at any broker; none: all of it is off.

        Raises:
            PeerRefused: the settings of the cluster cannot be read.
            PeerUnreachable: no broker answers.
        """
        ...
