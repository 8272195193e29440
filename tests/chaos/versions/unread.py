"""What a daemon says in its log when it cannot read what another release has written."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

_SAID: Final = re.compile(
    r"by a newer broker-ctl|does not decode|skipped |ignored the leader's node|missing$"
    r"|cannot be an? |must be a |unknown order|Traceback|task \S.* failed"
)
_MAX: Final = 8


def unread(logs: Iterable[Path]) -> Iterator[str]:
    """The first such lines of each log."""
    for path in logs:
        with path.open(encoding="utf-8", errors="replace") as lines:
            said = (line.rstrip() for line in lines if _SAID.search(line))
            yield from (f"{path.stem}: {line}" for line in islice(said, _MAX))
