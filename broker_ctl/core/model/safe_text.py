"""Text from outside made safe to show: without control and invisible characters."""

from typing import Final
from unicodedata import category

# Controls, and the separators of lines and of paragraphs.
_CONTROLS: Final = frozenset({"Cc", "Zl", "Zp"})


def printable(text: str) -> str:
    """Replace each control character, and each other invisible one, by a question mark."""
    return "".join(each if each.isprintable() else "?" for each in text)


def has_control_characters(text: str) -> bool:
    """Whether a terminal or a log might take a part of a text for more than text."""
    return not text.isprintable() and any(category(each) in _CONTROLS for each in text)


def escape(text: str, keep: str = "") -> str:
    r"""Replace each such character by its escape, as ``\x1b``, except those in ``keep``."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode()
        for each in text
    )
