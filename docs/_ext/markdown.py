"""Pieces of Markdown: what stands in docstrings and help texts, as a page shows it."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

# A piece of code, as docstrings mark it.
_CODE: Final = re.compile(r"`{1,2}([^`]+)`{1,2}")
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|#$~])")


def escape(text: str) -> str:
    """Text that reads as it is written, but for the code in it."""
    between = _CODE.split(text)
    return "".join(
        code(piece) if number % 2 else _SPECIAL.sub(r"\\\1", piece)
        for number, piece in enumerate(between)
    )


def code(text: str) -> str:
    """Text as code, also inside a table; empty where there is none."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def entry(term: str, *texts: str) -> str:
    """One entry of a definition list: what is Markdown already; empty texts are left out."""
    return "\n".join([term, *(f": {text}\n" for text in texts if text)])


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(' '.join(cell.split()) for cell in line)} |\n" for line in lines)
