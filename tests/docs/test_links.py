"""Links and citations lead somewhere."""

from pathlib import Path
from typing import Final

import pytest

from docs._ext.reference import PAGES
from tests.support import documents, structure

ROOT: Final = Path(__file__).parents[2]
FILES: Final = structure.files_of(ROOT)
CITING: Final = frozenset({".py", ".conf", ".yml", ".toml", ".service", ".json"})


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return documents.project_pages(ROOT, FILES, {name: made() for name, made in PAGES.items()})


def test_every_link_leads_somewhere(pages: dict[str, str]) -> None:
    assert {"README.md", "docs/index.md"} <= pages.keys()
    assert documents.broken_links(pages, map(Path.as_posix, FILES)) == []


def test_every_citation_of_a_page_leads_somewhere(pages: dict[str, str]) -> None:
    sources = {
        path.as_posix(): (ROOT / path).read_text(encoding="utf-8")
        for path in FILES
        if path.suffix in CITING and path.parts[0] in {"broker_ctl", "config", "deploy"}
    }
    assert len(sources) > 100
    assert documents.broken_citations(sources, pages) == []


# The checkers.

PAGE: Final = """# One title

(a-target)=
## `Code` and *more*: text

```text
# no heading, and [no link](nowhere.md)
```

[elsewhere](https://example.org) `[no](link)`
"""


def test_targets_and_headings_are_anchors() -> None:
    assert documents.anchors_of(PAGE) == {"one-title", "a-target", "code-and-more-text"}


@pytest.mark.parametrize(
    ("link", "is_there"),
    [
        ("#one-title", True),
        ("#a-target", True),
        ("#other-target", True),
        ("#other-title", False),
        ("#missing", False),
        ("sub/other.md", True),
        ("sub/other", True),
        ("sub/other.md#other-title", True),
        ("sub/other.md#a-target", False),
        ("../README.md", True),
        ("../../README.md", False),
        ("missing.md", False),
        ("sub", True),
    ],
)
def test_a_link_that_leads_nowhere_is_found(link: str, is_there: bool) -> None:
    pages = {
        "docs/page.md": f"{PAGE}[text]({link})",
        "docs/sub/other.md": "(other-target)=\n# Other title\n",
        "README.md": "",
    }
    assert documents.broken_links(pages, pages) == ([] if is_there else [f"docs/page.md: {link}"])


def test_a_citation_that_leads_nowhere_is_found() -> None:
    pages = {"docs/page.md": PAGE}
    sources = {"a.py": "see docs/page.md#a-target, docs/page.md#gone and docs/gone.md."}
    assert documents.broken_citations(sources, pages) == [
        "a.py: docs/page.md#gone",
        "a.py: docs/gone.md",
    ]
