"""Static files under names that contain the hash of their content, so that browsers keep them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Final

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
