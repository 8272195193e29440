"""What serves the messages, behind one protocol (docs: broker-process).

Every call that gives rights carries the fencing token: the czxid of the ownership node, which
grows over successive owners and is comparable between a parent bundle and its children. A data
plane refuses a token below the highest that it has seen for any overlapping hash (I1b, I2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats, SystemUsage


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What an unload did.

    Attributes:
        topics_closed: how many topics were closed.
        is_confirmed: the data plane serves the bundle no more. Where it is false, the caller
            fences, and keeps the ownership node if that fails too.
    """

    topics_closed: int
    is_confirmed: bool


@dataclass(frozen=True, slots=True)
class Declared:
    """What a broker process declares.

    Attributes:
        storage_refuses_old_tokens: what it stores is safe from earlier owners (BookKeeper's
            ledgers are). Only then may authority outlast the lease
            (``ownershipAuthority=storage``).
        version: of its software; empty where it is not known.
    """

    storage_refuses_old_tokens: bool = False
    version: str = ""


class DataPlane(Protocol):
    """A broker process, or a simulation of one.

    All methods raise `DataPlaneUnreachable`, `DataPlaneRefused` or `DataPlaneFenced`; each call
    ends by its deadline.
    """

    @property
    def instance_id(self) -> str:
        """Changes when the broker process restarts and has lost its state (I11)."""
        ...

    @property
    def declared(self) -> Declared:
        """As it said last."""
        ...

    async def start(self) -> None:
        """Get ready; learn ``instance_id`` and what is declared."""
        ...

    async def stop(self) -> None:
        """Withdraw authority and give up all resources.

        A process that is not ours to stop ends its acts by itself, at its deadline.
        """
        ...

    async def load(self, bundle: Bundle, token: int, *, is_preloading: bool = True) -> None:
        """Start serving a bundle under a token, in place of all that is loaded and overlaps it.

        ``is_preloading``: open its topics now; otherwise each when its first client comes.
        This and the next three may be repeated with the same tokens: a lost answer is harmless.
        """
        ...

    async def renew(self, bundle: Bundle, token: int) -> None:
        """Owned again under a higher token: the topics that are still loaded are kept.

        `DataPlaneRefused` where the bundle is not loaded (any more): load it.
        """
        ...

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Replace a loaded bundle by its children, each with its token; no topic is closed.

        `DataPlaneRefused` where the parent is not loaded: load the children.
        """
        ...

    async def merge(self, children: tuple[Bundle, Bundle], parent: Bundle, token: int) -> None:
        """Replace two loaded bundles by one; no topic is closed.

        `DataPlaneRefused` where a child is not loaded: load the parent.
        """
        ...

    async def unload(self, bundle: Bundle, deadline_s: float) -> Unloaded:
        """Close the topics of all that overlaps the bundle within ``deadline_s`` seconds.

        Where that is not confirmed, some topics may still be served and none is opened again: the
        caller fences, or loads the bundle again with its token to serve on.
        """
        ...

    async def unload_topic(self, topic: str) -> None:
        """Close one topic; the next client loads it again."""
        ...

    async def fence(self, bundle: Bundle) -> None:
        """Stop serving all that overlaps the bundle at once, however uncleanly."""
        ...

    def grant(self, session_epoch: int, deadline_s: float) -> None:
        """Authority until ``deadline_s`` on `Clock.now_s`; past it no act may start (I1a).

        Called at every renewal of the lease. A later call replaces the earlier one, also with an
        earlier deadline; 0 withdraws authority at once.
        """
        ...

    async def loaded(self) -> Mapping[Bundle, int]:
        """What is being served, with the token of each.

        No call of an earlier daemon takes effect after that.
        """
        ...

    async def topics(self, bundle: Bundle) -> tuple[str, ...]:
        """Complete names of the bundle's loaded topics."""
        ...

    async def topic_statistics(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        """Current traffic of each of the bundle's loaded topics, by complete name.

        `DataPlaneRefused` where the bundle is not loaded, or the broker process cannot tell.
        """
        ...

    async def statistics(self) -> Mapping[Bundle, BundleStats]:
        """Current traffic of each loaded bundle."""
        ...

    async def usage(self) -> SystemUsage | None:
        """The broker's load where the host's is not the broker's; None: ask the host."""
        ...
