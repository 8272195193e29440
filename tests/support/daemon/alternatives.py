"""The alternatives that a setting's declaration names, and a text of each."""

import re
from collections.abc import Iterator
from typing import Final

from broker_ctl.settings.declarations import Declaration

# An alternative in words, as a text of the kind. A list of nothing is what "empty" is for.
_TEXTS: Final = {
    "a host name": "localhost",
    "a host": "b-1",
    "an IP address": "127.0.0.2",
    ".domain": ".example.com",
    "the path of a socket": "/dev/log",
    "empty: none": "",
    "empty is none": "",
}
# What stands for a value of the reader's.
_VALUES: Final = (
    (r"\bname:", "a:"),
    (r"\bhost\b", "h"),
    (r":port\b", ":1"),
    (r"\bnamespace/name\b", "a/b"),
)
_LIST: Final = "a comma-separated list; each "
_SWITCH: Final = "true or false"
_FREE: Final = re.compile(r"letters, digits|entry point|characters")


def alternatives(declaration: Declaration) -> Iterator[str]:
    """A text of each alternative; none where the declaration names no two."""
    allowed = declaration.kind.allowed.removeprefix(_LIST)
    if allowed == _SWITCH or not re.search(r"\bor ", allowed) or _FREE.match(allowed):
        return
    # "a:x (or y, z)" is short for "a:x, a:y or a:z".
    short = re.fullmatch(
        r"(?P<first>(?P<before>\w+:)(?P<scheme>\w+)(?P<after>:.*)) \(or (?P<more>.*)\)", allowed
    )
    if short:
        more = (
            f"{short['before']}{scheme}{short['after']}" for scheme in short["more"].split(", ")
        )
        words = [short["first"], *more]
    else:
        words = [part for part in re.split(r", | or ", allowed) if not _FREE.search(part)]
    yield from map(_text, words)


def _text(words: str) -> str:
    if words in _TEXTS:
        return _TEXTS[words]
    for pattern, value in _VALUES if ":" in words else ():
        words = re.sub(pattern, value, words)
    return words
