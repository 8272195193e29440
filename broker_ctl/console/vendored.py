"""The libraries of the console, unchanged as their authors published them, with their hashes."""

from dataclasses import dataclass
from typing import Final


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
