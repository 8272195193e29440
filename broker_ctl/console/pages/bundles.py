"""The rings of namespaces as strips: width is the range of hashes, colour the load."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker_ctl.console.pages.frame import Row

_HASHES: Final = 1 << 32
_WIDTH: Final = 1000.0
_LEVELS: Final = 5
_HOT: Final = 20


@dataclass(frozen=True, slots=True)
class Piece:
    """One bundle of a strip; ``x`` and ``width`` are thousandths, ``heat`` is from 0 to 4."""

    row: Row
    x: float
    width: float
    heat: int


@dataclass(frozen=True, slots=True)
class Strip:
    """The ring of one namespace."""

    namespace: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Bundles:
    """The page.

    Attributes:
        hot: the bundles with the most traffic.
        chosen: the bundle that is shown in detail; empty: none.
        hidden: bundles that the leader's view leaves out, as they have the least traffic.
    """

    namespaces: tuple[str, ...]
    strips: tuple[Strip, ...]
    hot: tuple[Row, ...]
    chosen: str
    hidden: int


def bundles_page(cluster: Row | None, namespace: str, chosen: str) -> Bundles:
    """The page of the leader's view; ``namespace`` empty: all."""
    rows: list[Row] = [] if cluster is None else cluster["bundles"]
    by_namespace: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_namespace[row["bundle"].rpartition("/")[0]].append(row)
    wanted = [namespace] if namespace in by_namespace else sorted(by_namespace)[:_HOT]
    hottest = max((row["throughput_bytes_per_s"] for row in rows), default=0.0)
    shown = [row for row in rows if not namespace or row["bundle"].startswith(f"{namespace}/")]
    return Bundles(
        tuple(sorted(by_namespace)),
        tuple(Strip(name, _pieces(by_namespace[name], hottest)) for name in wanted),
        tuple(shown[:_HOT]),
        chosen,
        0 if cluster is None else cluster["bundle_count"] - len(rows),
    )


def _pieces(rows: Iterable[Row], hottest: float) -> tuple[Piece, ...]:
    return tuple(_piece(row, hottest) for row in sorted(rows, key=lambda row: str(row["bundle"])))


def _piece(row: Row, hottest: float) -> Piece:
    low, _, high = row["bundle"].rpartition("/")[2].partition("_")
    begin, end = int(low, 16), int(high, 16)
    share = row["throughput_bytes_per_s"] / hottest if hottest > 0 else 0.0
    heat = min(_LEVELS - 1, int(share * _LEVELS))
    x = begin / _HASHES * _WIDTH
    return Piece(row, round(x, 2), round(max(1.0, (end - begin) / _HASHES * _WIDTH), 2), heat)
