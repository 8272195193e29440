"""What a page loads from elsewhere: the site is read without a network, too."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

_LOADED: Final = frozenset({"src", "srcset", "data", "poster", "xlink:href"})
# Elements whose ``href`` is a link for the reader, and loads nothing.
_LINKS: Final = frozenset({"a", "area", "base"})
_ELSEWHERE: Final = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_IN_STYLE: Final = re.compile(
    r"(?:url\(|@import)\s*[\"']?\s*((?:[a-z][a-z0-9+.-]*:)?//[^\"')\s]+)", re.IGNORECASE
)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            is_loaded = name in _LOADED or (name == "href" and tag not in _LINKS)
            if value and is_loaded and _ELSEWHERE.match(value):
                self.found.append(f"<{tag}> {value}")


def external_resources(text: str, suffix: str) -> list[str]:
    """What a page, a picture or a style sheet would load from another host."""
    styles = [f"style {url}" for url in _IN_STYLE.findall(text)]
    if suffix == ".css":
        return styles
    page = _Page()
    page.feed(text)
    return page.found + styles


def of_site(directory: Path) -> Iterator[str]:
    """``file: resource`` of all pages, pictures and style sheets of a built site."""
    for file in sorted(directory.rglob("*")):
        if file.suffix in {".css", ".html", ".svg"}:
            for found in external_resources(file.read_text(encoding="utf-8"), file.suffix):
                yield f"{file.relative_to(directory)}: {found}"
