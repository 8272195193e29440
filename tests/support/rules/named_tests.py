"""Tests that other files name, as ``tests/a/test_b.py::test_c``."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]


def exists(named: str) -> bool:
    """Whether there is such a test."""
    file, _, name = named.partition("::")
    return name.startswith("test_") and name in _functions_of(file)


@cache
def _functions_of(file: str) -> set[str]:
    tree = ast.parse((_ROOT / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
