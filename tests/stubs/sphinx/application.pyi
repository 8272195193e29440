from collections.abc import Callable
from pathlib import Path
from typing import Any

from docutils.parsers.rst import Directive

class Sphinx:
    outdir: Path
    def add_directive(self, name: str, cls: type[Directive]) -> None: ...
    def connect(self, event: str, callback: Callable[..., Any]) -> int: ...
