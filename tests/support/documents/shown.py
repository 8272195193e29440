"""Whether a command prints what a page shows, up to what differs from run to run.

Numbers, sizes, times, ids, addresses and the width of columns differ. ``...`` in a line stands for
any text, on a line by itself for any lines. The rows of a table come in any order.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]")
_RULE: Final = re.compile(r"^ *─+$")
_ELLIPSIS: Final = "..."
_VARIABLE: Final = (
    (re.compile(r"━[━╸╺ ]*"), "━ "),
    (re.compile(r"(\d{4}-)?\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d\b"), "TIME"),
    (re.compile(r"\b(\d+\.\d+\.\d+\.\d+|broker-\d+)(:\d+)?\b"), "ADDRESS"),
    (re.compile(r"(?<![0-9A-Za-z])0x[0-9a-f]+"), "ID"),
    (re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{8,}\b"), "ID"),
    (re.compile(r"\b\d+:\d\d(:\d\d)?\b"), "N"),
    (re.compile(r"-?\b\d[\d,]*(\.\d+)*(e[+-]?\d+)?"), "N"),
    (re.compile(r"\bN ?(B|KiB|MiB|GiB|kB|MB)(/s)?(?!\w)"), "SIZE"),
    (re.compile(r"\bN ?(ms|s|min|h|d)\b"), "LASTING"),
    (re.compile(r"\bN (\w+?)s\b"), r"N \1"),
    # How many brokers share what moves.
    (re.compile(r"(ADDRESS \([^()]*\))(, ADDRESS \([^()]*\))*"), r"\1"),
    # An empty cell of a table may have a number in the next run.
    (re.compile(r"(?<=\s)(-|SIZE|LASTING|N%)(?=\s|$)"), "N"),
    (re.compile(r"\b(yes|no)\b"), "YES"),
    (re.compile(r"[ \t]+"), " "),
)


def plain(output: str) -> str:
    """What stands on a terminal after all: without colours, of a rewritten line the last state."""
    lines = _ESCAPES.sub("", output).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines)


def differences(shown: str, output: str) -> Iterator[str]:
    """What a page shows and the output has not, and the other way round; nothing: they agree."""
    expected, came = _blocks(shown), _blocks(plain(output))
    if not _agree(expected, came):
        yield f"the page shows\n{shown}\nand this came:\n{plain(output)}"


# A line, or the rows of a table.
_Block = str | tuple[str, ...]


def _blocks(text: str) -> list[_Block]:
    found: list[_Block] = []
    rows: list[str] | None = None
    for line in text.splitlines():
        if rows is not None and (line.startswith(" ") or line == _ELLIPSIS) and line.strip():
            rows.append(_normal(line))
            continue
        if rows is not None:
            found.append(tuple(rows))
            rows = None
        if _RULE.match(line):
            rows = []
        elif line.strip():
            found.append(_normal(line))
    if rows is not None:
        found.append(tuple(rows))
    return found


def _normal(line: str) -> str:
    for pattern, name in _VARIABLE:
        line = pattern.sub(name, line)
    return line.strip()


def _agree(expected: Sequence[_Block], came: Sequence[_Block]) -> bool:
    if not expected:
        return not came
    first, *rest = expected
    if first == _ELLIPSIS:
        return any(_agree(rest, came[skipped:]) for skipped in range(len(came) + 1))
    return bool(came) and _same(first, came[0]) and _agree(rest, came[1:])


def _same(expected: _Block, came: _Block) -> bool:
    if isinstance(expected, str) or isinstance(came, str):
        return isinstance(expected, str) and isinstance(came, str) and _line(expected, came)
    left = list(came)
    for row in expected:
        if row == _ELLIPSIS:
            continue
        found = next((other for other in left if _line(row, other)), None)
        if found is None:
            return False
        left.remove(found)
    return not left or _ELLIPSIS in expected


def _line(expected: str, came: str) -> bool:
    # An empty list of more in the page stands for none, too.
    pattern = re.escape(expected).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, came) is not None
