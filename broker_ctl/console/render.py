"""The templates of the console and its static files. Everything from outside is escaped."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from broker_ctl.core.model.load import throughput_text
from broker_ctl.core.model.safe_text import printable

if TYPE_CHECKING:
    from jinja2 import Environment


# Terms that the pages explain; a test holds them to the glossary of the documentation.


TERMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bundle": "A contiguous range of the hashes of a namespace: the unit of ownership and of "
        "moves. [Pulsar]",
        "decision": "A proposed action of a strategy or an operator, with a reason: assign, "
        "transfer, split, merge, skip.",
        "drain": "To move all bundles off a broker on purpose. [operations]",
        "epoch": "A number that grows with each holder of a role. Lead epoch, controller epoch, "
        "leader epoch. [Kafka] A term is the time of one holder. [Raft]",
        "fencing token": "A number that grows with each owner, so that storage can reject an "
        "earlier owner. In broker-ctl it is the czxid of the owner node.",
        "ISR": "In-sync replicas: those that have all committed records. [Kafka]",
        "leader": "Of the bundles: the broker that holds /loadbalance/leader. [Pulsar] Of a "
        "partition: the replica that accepts writes. [Kafka]",
        "lease": "A right with a deadline. [Gray and Cheriton]",
        "merge": "Two neighbouring bundles become one. Pulsar has no merge.",
        "move": "The transfer of a bundle from one broker to another, by the move protocol.",
        "plan": "An ordered list of decisions, merged within the budgets and checked as a whole. "
        "[Cruise Control: proposal]",
        "ring": "All bundles of a namespace; together they cover all hashes.",
        "session": "A client's relation to the ZooKeeper servers, which may last over several "
        "connections. [ZooKeeper]",
        "split": "The replacement of a bundle by its children. [Pulsar]",
    }
)


# Numbers and times as the pages write them: each with its unit.


_NONE: Final = "\N{EN DASH}"
# A tenth of a second is the last figure of longer ones.
_SHORT_S: Final = 0.1
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_THOUSAND: Final = 1000


def percent(ratio: float | None) -> str:
    """A ratio in percent: ``38.9 %``."""
    return _NONE if ratio is None else f"{ratio * 100:.1f} %"


def ratio_text(ratio: float | None) -> str:
    """A ratio as a factor: ``1.06``."""
    return _NONE if ratio is None else f"{ratio:.2f}"


def rate(per_s: float | None) -> str:
    """Messages per second: ``19.5 k/s``."""
    if per_s is None:
        return _NONE
    for unit in ("", " k", " M"):
        if per_s < _THOUSAND:
            return f"{per_s:.1f}{unit}/s" if unit else f"{per_s:.0f}/s"
        per_s /= _THOUSAND
    return f"{per_s:.1f} G/s"


def throughput(bytes_per_s: float | None) -> str:
    """Bytes per second: ``12.5 MiB/s``."""
    return _NONE if bytes_per_s is None else throughput_text(bytes_per_s)


def duration(seconds: float | None) -> str:
    """A duration: ``50 ms``, ``0.8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds is None:
        return _NONE
    if 0 < seconds < _SHORT_S:
        return f"{seconds * _THOUSAND:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{max(0.0, seconds):.1f} s"
    whole = int(seconds)
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def moment(at_ms: int | None) -> str:
    """A time in UTC, for ``<time datetime>``: ``2030-01-31T02:00:00Z``."""
    return "" if not at_ms else _utc(at_ms).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock_time(at_ms: int | None) -> str:
    """A time of day in UTC: ``02:00:00 UTC``."""
    return _NONE if not at_ms else _utc(at_ms).strftime("%H:%M:%S UTC")


def words(name: Any) -> str:
    """The words of a name of the API: ``too few topics`` of ``too_few_topics``."""
    return str(name).replace("_", " ")


def field_name(name: str) -> str:
    """The words of a field, without the unit that its value shows."""
    for suffix in _UNITS:
        name = name.removesuffix(suffix)
    return words(name)


def field_value(name: str, value: Any) -> str:
    """The value of a field of the API, with the unit that its name ends with."""
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{field_name(key)} {field_value(key, each)}" for key, each in value.items()
        )
    if isinstance(value, list | tuple):
        return "; ".join(field_value(name, each) for each in value)
    if isinstance(value, int | float):
        for suffix, show in _UNITS.items():
            if name.endswith(suffix):
                return show(value)
    return str(value)


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 bundle``, ``2 bundles``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# Endings of the names of fields, the longer ones first.
_UNITS: Final[Mapping[str, Callable[[Any], str]]] = MappingProxyType(
    {
        "_bytes_per_s": throughput,
        "_per_s": rate,
        "_ratio": percent,
        "_ms": moment,
        "_s": duration,
    }
)


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / _THOUSAND, UTC)


# Static files under names that contain the hash of their content, so that browsers keep them.


_STATIC: Final = files("broker_ctl.console") / "static"
_FILES: Final = (
    "console.css",
    "console.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/hx-sse.min.js",
)
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HASH_LENGTH: Final = 12


@dataclass(frozen=True, slots=True)
class Asset:
    """One static file.

    Attributes:
        name: with the hash, as the page asks for it: ``console.0123456789ab.css``.
    """

    name: str
    content_type: str
    body: bytes


@cache
def assets() -> Mapping[str, Asset]:
    """All static files by their path in the package; read once, some 60 KB."""
    return MappingProxyType({path: _read(path) for path in _FILES})


@cache
def assets_by_name() -> Mapping[str, Asset]:
    """The same by their names with the hash."""
    return MappingProxyType({asset.name: asset for asset in assets().values()})


def _read(path: str) -> Asset:
    body = _STATIC.joinpath(path).read_bytes()
    stem, _, kind = path.rpartition("/")[2].rpartition(".")
    name = f"{stem}.{sha256(body).hexdigest()[:_HASH_LENGTH]}.{kind}"
    return Asset(name, _TYPES[kind], body)


# The libraries of the console, unchanged as their authors published them, with their hashes.


@dataclass(frozen=True, slots=True)
class Vendored:
    """One file of a library.

    Attributes:
        source: package, version and path at npm's registry.
        licence: SPDX identifier; its text is beside the file.
    """

    file: str
    source: str
    licence: str
    licence_file: str
    sha256: str


VENDORED: Final = (
    Vendored(
        "htmx.min.js",
        "htmx.org@4.0.1 dist/htmx.min.js",
        "0BSD",
        "htmx.LICENSE",
        "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    ),
    Vendored(
        "hx-sse.min.js",
        "htmx.org@4.0.1 dist/ext/hx-sse.min.js",
        "0BSD",
        "htmx.LICENSE",
        "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
    ),
)


# The templates of the console. Everything that comes from outside is escaped.
#
# Jinja is loaded with the first page: most daemons never show one, and each would start later for
# it.


# Pieces of a template that are rendered in one go: some 0.2 ms.
_PIECES: Final = 100


def render(template: str, **values: Any) -> str:
    """One page, or one part of a page, as HTML."""
    return _templates().get_template(template).render(values)


@cache
def prepare() -> None:
    """Read and compile everything, which takes some 0.2 s: for a thread, before the first page."""
    assets()
    environment = _templates()
    for name in environment.list_templates():
        environment.get_template(name)


async def render_in_steps(template: str, **values: Any) -> str:
    """The same, which lets other tasks run in between."""
    pieces: list[str] = []
    for number, piece in enumerate(_templates().get_template(template).generate(values)):
        pieces.append(piece)
        if number % _PIECES == 0:
            await asyncio.sleep(0)
    return "".join(pieces)


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def visible(value: Any) -> Any:
        """Markup has been through here, piece by piece."""
        return value if isinstance(value, Markup) else printable(str(value))

    environment = Environment(
        loader=PackageLoader("broker_ctl.console"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "clock_time": clock_time,
        "counted": counted,
        "duration": duration,
        "field_name": field_name,
        "field_value_of": lambda value, name: field_value(name, value),
        "moment": moment,
        "percent": percent,
        "rate": rate,
        "ratio": ratio_text,
        "throughput": throughput,
        "words": words,
    }
    environment.globals |= {"asset": _asset_url, "terms": TERMS}
    return environment


def _asset_url(path: str) -> str:
    return f"/ui/static/{assets()[path].name}"
