"""The exit codes of the daemon as a page, from the module that has them."""

import inspect
import re
from typing import Final

from broker_ctl.daemon.lifecycle import exits
from docs._ext.markdown import code, escape, table

_CONSTANT: Final = re.compile(r"((?:^# .*\n)+)^[A-Z_]+: Final = (\d+)$", re.MULTILINE)


def page() -> str:
    """Each code with the comment above it."""
    rows = [
        [code(number), escape(" ".join(line[2:] for line in comment.splitlines()))]
        for comment, number in _CONSTANT.findall(inspect.getsource(exits))
    ]
    return table(["Code", "Meaning"], rows)
