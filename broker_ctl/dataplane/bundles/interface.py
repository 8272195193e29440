"""The protocol of a data plane, which serves the messages (docs: broker-process)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from broker_ctl.core.model.load import BundleStats, SystemUsage
from broker_ctl.core.model.names import Bundle

# How long a broker process may act (I1a).


@dataclass(frozen=True, slots=True)
class Authority:
    """A grant: its holder may start acts before ``deadline_s`` on its own clock.

    Attributes:
        session_epoch: the session of the daemon that the grant comes from.
        deadline_s: 0 if no authority was granted, or if it was withdrawn.
    """

    session_epoch: int = 0
    deadline_s: float = 0.0

    def is_valid(self, now_s: float) -> bool:
        """Whether an act may start; check it at each act, since a timer would fire late."""
        return now_s < self.deadline_s

    def remaining_ms(self, now_s: float) -> int:
        """Whole milliseconds left.

        Rounded down so that passing them on does not extend the grant.
        """
        return max(0, int((self.deadline_s - now_s) * 1000))


# The protocol of a data plane, which serves the messages (docs: broker-process).
#
# Every call that grants ownership carries the fencing token: the czxid of the ownership node,
# which grows from owner to owner and is comparable between a parent bundle and its children. A
# data plane refuses a token below the highest one that it has received for any overlapping hash
# (I1b, I2).


@dataclass(frozen=True, slots=True)
class Unloaded:
    """Result of an unload.

    Attributes:
        topics_closed: number of topics that were closed.
        is_confirmed: whether the data plane has stopped serving the bundle. If false, the caller
            fences, and keeps the ownership node if fencing fails too.
    """

    topics_closed: int
    is_confirmed: bool


@dataclass(frozen=True, slots=True)
class Declared:
    """What a broker process declares.

    Attributes:
        storage_refuses_old_tokens: whether its storage fences earlier owners (as BookKeeper's
            ledgers do). Only then may authority outlast the lease (``ownershipAuthority=storage``).
        version: of its software; empty if it is not known.
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
        """The latest declaration."""
        ...

    async def start(self) -> None:
        """Connect; read ``instance_id`` and the declaration."""
        ...

    async def stop(self) -> None:
        """Withdraw authority and give up all resources.

        A process that is not ours to stop ends its acts by itself, at its deadline.
        """
        ...

    async def load(self, bundle: Bundle, token: int, *, is_preloading: bool = True) -> None:
        """Start serving a bundle under a token, in place of all loaded bundles that overlap it.

        ``is_preloading``: open its topics now; otherwise each topic when its first client connects.
        This call and the next three may be repeated with the same tokens, so that a lost answer is
        harmless.
        """
        ...

    async def renew(self, bundle: Bundle, token: int) -> None:
        """Keep serving a bundle under a higher token; topics that are still loaded stay open.

        `DataPlaneRefused` if the bundle is not loaded (any more): then load it.
        """
        ...

    async def split(self, parent: Bundle, children: Mapping[Bundle, int]) -> None:
        """Replace a loaded bundle by its children, each with its token; no topic is closed.

        `DataPlaneRefused` if the parent is not loaded: then load the children.
        """
        ...

    async def merge(self, children: tuple[Bundle, Bundle], parent: Bundle, token: int) -> None:
        """Replace two loaded bundles by one; no topic is closed.

        `DataPlaneRefused` if a child is not loaded: then load the parent.
        """
        ...

    async def unload(self, bundle: Bundle, deadline_s: float) -> Unloaded:
        """Close the topics of all that overlaps the bundle within ``deadline_s`` seconds.

        If the unload is not confirmed, some topics may still be served and none is opened again:
        the caller fences the bundle, or loads it again with its token to keep serving it.
        """
        ...

    async def unload_topic(self, topic: str) -> None:
        """Close one topic; the next client loads it again."""
        ...

    async def fence(self, bundle: Bundle) -> None:
        """Stop serving everything that overlaps the bundle at once.

        Topics are dropped without a clean close.
        """
        ...

    def grant(self, session_epoch: int, deadline_s: float) -> None:
        """Grant authority until ``deadline_s`` on `Clock.now_s`; past it no act may start (I1a).

        Called at every renewal of the lease. A later call replaces the earlier one, even with an
        earlier deadline; 0 withdraws authority at once.
        """
        ...

    async def loaded(self) -> Mapping[Bundle, int]:
        """Bundles that are being served, with their tokens.

        No call of an earlier daemon takes effect after that.
        """
        ...

    async def topics(self, bundle: Bundle) -> tuple[str, ...]:
        """Complete names of the bundle's loaded topics."""
        ...

    async def topic_statistics(self, bundle: Bundle) -> Mapping[str, BundleStats]:
        """Current traffic of each of the bundle's loaded topics, by complete name.

        `DataPlaneRefused` if the bundle is not loaded, or the broker process does not measure
        topics.
        """
        ...

    async def statistics(self) -> Mapping[Bundle, BundleStats]:
        """Current traffic of each loaded bundle."""
        ...

    async def usage(self) -> SystemUsage | None:
        """The broker process's own measure of its load; None: measure the host instead."""
        ...
