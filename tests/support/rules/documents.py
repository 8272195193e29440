"""Links of Markdown pages and citations of source files, held against what is there."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

_FENCE: Final = re.compile(r"^(`{3,}|~{3,}|:{3,})[^\n]*\n.*?^\1[ ]*$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`+[^`\n]*`+")
_LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(<?([^)\s>]+)>?\)|!\[[^\]]*\]\(([^)\s]+)\)")
_TARGET: Final = re.compile(r"^\(([\w.:-]+)\)=$", re.MULTILINE)
_HEADING: Final = re.compile(r"^#{1,6} +(.+?)$", re.MULTILINE)
_CITATION: Final = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
_NAMED: Final = re.compile(r"\b[Dd]ocs: ([^();.\"]*)")
# Sections of documents that are not in the repository.
_ABSENT: Final = re.compile(
    r"\b[Rr]eference:? (?:[A-F]\b|\d|[a-z]+(?:-[a-z]+)+ (?:[A-F]\b|\d))"
    r"|\b[Ss]eed:? (?:[A-F]\b|[A-F]\d|ZKQueue|discussion|paths|(?:replication )?design)\b"
    r"|[(;] ?(?:reference|design): [A-Za-z]|[(;] ?design (?:section )?\d|(?<=\w )\(seed\)"
    r"|\bReference: [a-z]|[(;] ?[A-F]\.\d+\b"
)
_ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def anchors_of(text: str) -> set[str]:
    """Where a link can lead to within a page: explicit targets, and headings."""
    shown = _FENCE.sub("", text)
    headings = {_slug(heading) for heading in _HEADING.findall(shown)}
    return headings | {target.lower() for target in _TARGET.findall(shown)}


def _slug(heading: str) -> str:
    bare = re.sub(r"[`*]|\\(?=\W)", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
    return re.sub(r"[^\w\- ]", "", bare.strip().lower()).replace(" ", "-")


def links_of(text: str) -> Iterator[str]:
    """What a page links to, code left out."""
    for match in _LINK.finditer(_CODE.sub(_without_brackets, _FENCE.sub("", text))):
        yield match[1] or match[2]


def _without_brackets(code: re.Match[str]) -> str:
    return re.sub(r"[\[\]()]", "", code[0])


def broken_links(pages: Mapping[str, str], files: Iterable[str]) -> list[str]:
    """``page: link`` of all relative links that lead nowhere.

    Args:
        pages: text by path; a link of one page below ``docs`` to ``#name`` may mean another's.
        files: paths of all files, pages included.
    """
    anchors = {path: anchors_of(text) for path, text in pages.items()}
    named = {
        target.lower()
        for path, text in pages.items()
        if path.startswith("docs/")
        for target in _TARGET.findall(text)
    }
    there = {path for file in files for path in (file, *map(str, PurePosixPath(file).parents))}
    return [
        f"{page}: {link}"
        for page, text in pages.items()
        for link in links_of(text)
        if not _ELSEWHERE.match(link)
        if not _leads(page, link, anchors, there)
        if not (page.startswith("docs/") and link[0] == "#" and link[1:].lower() in named)
    ]


def _leads(page: str, link: str, anchors: Mapping[str, set[str]], there: set[str]) -> bool:
    path, _, anchor = link.partition("#")
    target = _joined(page, path) if path else page
    # Sphinx knows a page without its suffix, too.
    target = target if target in there else f"{target}.md"
    return target in there and (not anchor or anchor.lower() in anchors.get(target, ()))


def _joined(page: str, link: str) -> str:
    parts: list[str] = []
    for part in (*PurePosixPath(page).parent.parts, *PurePosixPath(link).parts):
        if part == "..":
            parts = parts[:-1] if parts else ["outside"]
        else:
            parts.append(part)
    return "/".join(parts) or "."


def broken_citations(sources: Mapping[str, str], pages: Mapping[str, str]) -> list[str]:
    """``file: citation`` of every ``docs/page.md#anchor`` in a source that is not there."""
    anchors = {path: anchors_of(text) for path, text in pages.items()}
    return [
        f"{source}: {cited}"
        for source, text in sources.items()
        for cited in _CITATION.findall(text)
        if not _leads("", cited, anchors, set(pages))
    ]


def prose_of(text: str) -> str:
    """The text of a source with each comment and paragraph on one line, so that none is cut."""
    return re.sub(r"\n[ \t]*(?:#[ \t])?(?=\S)", " ", text)


def unknown_targets(sources: Mapping[str, str], pages: Mapping[str, str]) -> list[str]:
    """``file: name`` of each target that a source cites by its name and no page has."""
    named = {
        target
        for path, text in pages.items()
        if path.startswith("docs/")
        for target in _TARGET.findall(text)
    }
    return [
        f"{source}: {name}"
        for source, text in sources.items()
        for names in _NAMED.findall(prose_of(text))
        for name in names.split(", ")
        if name not in named
    ]


def absent_documents(sources: Mapping[str, str]) -> list[str]:
    """``file: citation`` of every section of a document that the repository does not have."""
    return [
        f"{source}: {cited}"
        for source, text in sources.items()
        for cited in _ABSENT.findall(prose_of(text))
    ]


def with_generated(text: str, parts: Mapping[str, str]) -> str:
    """A page with what is made for it while the site is built."""
    return re.sub(
        r"^```\{generated\} ([\w-]+)\n```$",
        lambda found: parts.get(found[1], ""),
        text,
        flags=re.MULTILINE,
    )


def project_pages(root: Path, files: Iterable[Path], parts: Mapping[str, str]) -> dict[str, str]:
    """All Markdown of the project, with the generated parts."""
    return {
        path.as_posix(): with_generated((root / path).read_text(encoding="utf-8"), parts)
        for path in files
        if path.suffix == ".md"
    }
