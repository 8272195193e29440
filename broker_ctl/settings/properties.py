"""The text of a broker.conf: lines of ``key=value``, as Java's properties and Pulsar write them.

Lines that start with ``#`` or ``!`` are comments. A line that ends in a backslash goes on in the
next one. Blanks around key and value do not count; two backslashes stand for one.
"""

import re
from collections.abc import Iterator
from typing import Final

from broker_ctl.settings.schema import Entry, Problem

_BLANKS: Final = " \t\r\f"
_KEY = re.compile(r"[A-Za-z0-9_.-]+")


def parse(text: str, name: str) -> tuple[list[Entry], list[Problem]]:
    """The entries of a file called ``name``, and what is wrong with its lines.

    A key that stands twice is a problem; its first value is kept.
    """
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for number, line in _logical_lines(text):
        origin = f"{name}:{number}"
        key, equals, value = (part.strip(_BLANKS) for part in line.partition("="))
        if not equals:
            problems.append(Problem(origin, "", "", "no '=' in the line"))
        elif not _KEY.fullmatch(key):
            problems.append(Problem(origin, "", "", "the text before '=' is no key"))
        elif key in entries:
            first = entries[key].origin.rpartition(":")[2]
            message = f"given twice, in lines {first} and {number}"
            problems.append(Problem(origin, key, "", message))
        else:
            entries[key] = Entry(key, value.replace("\\\\", "\\"), origin)
    return list(entries.values()), problems


def line_of(key: str, value: str) -> str:
    """The line that `parse` reads as this entry."""
    escaped = value.replace("\\", "\\\\")
    return f"{key}={escaped}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, with continuations joined, by the number of their first line."""
    joined, first = "", 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip(_BLANKS)
        if not joined:
            first = number
            if not line or line[0] in "#!":
                continue
        joined += line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield first, joined
        joined = ""
    if joined:
        yield first, joined
