"""What all pages share: who asks, where, of which leader, and how old the view is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker_ctl.console.acts.catalogue import ACTS
from broker_ctl.security.authorization.operations import Operation

Row = Mapping[str, Any]

# Path below /ui/, and the word in the navigation.
PAGES: Final = (
    ("", "Now"),
    ("bundles", "Bundles"),
    ("plan", "Plan"),
    ("history", "History"),
    ("drains", "Drains and rollout"),
    ("partitions", "Partitions"),
    ("policies", "Policies"),
    ("settings", "Settings"),
)
# Above this age in seconds a view is called stale: three cycles of the default interval.
STALE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of a page.

    Attributes:
        page: path below ``/ui/``.
        cluster, asked: name of the cluster, and id of the daemon that serves the page.
        leader: id of the leader; empty: none is known.
        age_s: age of the leader's view in seconds; None: there is no view.
        role: of the client; empty: authentication is off.
        offered: operations that its role may perform in the whole cluster.
        live: the address of its updates; empty: the page is not live.
    """

    page: str
    cluster: str
    asked: str
    leader: str = ""
    age_s: float | None = None
    role: str = ""
    offered: frozenset[Operation] = frozenset()
    live: str = ""
    is_read_only: bool = False
    has_sign_in: bool = False

    def offers(self, act: str) -> bool:
        """Whether an act is offered; the API decides on it in any case."""
        return not self.is_read_only and ACTS[act].operation in self.offered

    @property
    def is_stale(self) -> bool:
        """Whether the view is so old that it must not be taken for the present."""
        return self.age_s is not None and self.age_s > STALE_S

    @property
    def navigation(self) -> tuple[tuple[str, str, bool], ...]:
        """Address, word, and whether it is the page that is shown."""
        return tuple((f"/ui/{path}", word, path == self.page) for path, word in PAGES)
