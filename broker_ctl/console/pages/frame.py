"""The frame around each page, and the bars of loads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from broker_ctl.console.acts import ACTS
from broker_ctl.security.authorization import Operation

# What all pages share: who asks, where, of which leader, and how old the view is.


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


# Brokers as bars, with the band of the planner drawn in.


_LENGTH: Final = 1000.0
_MARGIN: Final = 1.12


@dataclass(frozen=True, slots=True)
class LoadBand:
    """The planner's band, as multiples of the mean usage; see ``loadBalancerPlanner...``."""

    low: float = 1.04
    high: float = 1.08


DEFAULT_BAND: Final = LoadBand()


@dataclass(frozen=True, slots=True)
class Bar:
    """One broker; lengths are thousandths of the picture's width.

    Attributes:
        of_mean: usage as a multiple of the mean.
        verdict: a word for its place: ``above``, ``within`` or ``below`` the band.
        resource: that its usage is of, by its last report; empty: not known.
    """

    row: Row
    length: float
    of_mean: float
    verdict: str
    resource: str


@dataclass(frozen=True, slots=True)
class Bars:
    """All brokers by usage, the fullest first; ``mean``, ``low``, ``high`` are positions."""

    bars: tuple[Bar, ...]
    mean: float
    low: float
    high: float
    mean_ratio: float


def bars_of(brokers: Iterable[Row], band: LoadBand) -> Bars:
    """The bars of the leader's brokers."""
    rows = sorted(brokers, key=lambda row: (-row["usage_ratio"], row["broker"]))
    mean = fsum(row["usage_ratio"] for row in rows) / len(rows) if rows else 0.0
    longest = max([mean * band.high, *(row["usage_ratio"] for row in rows)], default=0.0)
    scale = _LENGTH / (longest * _MARGIN) if longest > 0 else 0.0

    def bar(row: Row) -> Bar:
        of_mean = row["usage_ratio"] / mean if mean > 0 else 0.0
        verdict = "within"
        if of_mean > band.high:
            verdict = "above"
        elif of_mean < band.low:
            verdict = "below"
        length = round(row["usage_ratio"] * scale, 1)
        # The leader of the release before does not say it.
        return Bar(row, length, of_mean, verdict, row.get("fullest_resource", ""))

    return Bars(
        tuple(map(bar, rows)),
        round(mean * scale, 1),
        round(mean * band.low * scale, 1),
        round(mean * band.high * scale, 1),
        mean,
    )
