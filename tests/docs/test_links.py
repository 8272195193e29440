"""Links and citations have a target."""

from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

import pytest

from docs._ext.reference import PAGES
from tests.support.rules import documents, structure

ROOT: Final = Path(__file__).parents[2]
FILES: Final = structure.files_of(ROOT)
CITING: Final = frozenset({".py", ".conf", ".yml", ".toml", ".service", ".json"})


def texts(tops: AbstractSet[str], suffixes: AbstractSet[str]) -> dict[str, str]:
    """What stands in the files below some folders, by path; not in this one, which has examples."""
    return {
        path.as_posix(): (ROOT / path).read_text(encoding="utf-8")
        for path in FILES
        if path.suffix in suffixes and path.parts[0] in tops and ROOT / path != Path(__file__)
    }


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return documents.project_pages(ROOT, FILES, {name: made() for name, made in PAGES.items()})


def test_every_link_leads_somewhere(pages: dict[str, str]) -> None:
    assert {"README.md", "docs/index.md"} <= pages.keys()
    assert documents.broken_links(pages, map(Path.as_posix, FILES)) == []


def test_every_citation_of_a_page_leads_somewhere(pages: dict[str, str]) -> None:
    sources = texts({"broker_ctl", "config", "deploy"}, CITING)
    assert len(sources) > 100
    assert documents.broken_citations(sources, pages) == []


def test_every_target_that_is_cited_by_name_is_there(pages: dict[str, str]) -> None:
    sources = texts({"broker_ctl", "config", "deploy", "tests"}, CITING)
    cited = [text for text in sources.values() if "ocs: " in text]
    assert len(cited) > 200
    assert documents.unknown_targets(sources, pages) == []


def test_no_document_is_cited_that_is_not_in_the_repository() -> None:
    sources = texts({"broker_ctl", "config", "deploy", "docs", "tests"}, CITING | {".md"})
    assert documents.absent_documents(sources) == []


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


def test_a_link_without_a_target_is_found() -> None:
    pages = {"docs/page.md": PAGE, "README.md": "(elsewhere)=\n"}
    sources = {
        "a.py": '"""One (docs: a-target; KIP-1)."""\n    # of it (docs:\n    # gone, a-target)\n',
        "b.py": '"""Other.\n\nDocs: a-target,\nelsewhere. More.\n"""',
    }
    assert documents.unknown_targets(sources, pages) == ["a.py: gone", "b.py: elsewhere"]


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("How (reference: 8.2, 8.4).", True),
        ("How (Pulsar's; reference 3.5).", True),
        ("How (reference:\n# pulsar-load-management 6.1).", True),
        ("Reference: metadata-store 1.4.", True),
        ("as in reference metadata-store 6.7", True),
        ("Moved (design: move).", True),
        ("Moved (design section 3).", True),
        ("One queue (seed: ZKQueue, B).", True),
        ("Decimals (seed).", True),
        ("Elected (A.8).", True),
        ("seed: of the scenario; None: its own.", False),
        ("def walk(self, seed: int) -> None:", False),
        ("Random(seed)", False),
        ("The reference broker, and the design of it (docs: a-target).", False),
    ],
)
def test_a_document_that_is_not_there_is_found(text: str, is_found: bool) -> None:
    assert bool(documents.absent_documents({"a.py": text})) is is_found
