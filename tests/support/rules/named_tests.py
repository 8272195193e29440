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


def names_used_by(named: str) -> set[str]:
    """The names that a test uses, and those behind what its module has: helpers, lists, fixtures.

    What a parameter of the test names is a fixture, of this module or of the folder's
    ``conftest.py``.
    """
    file, _, name = named.partition("::")
    defined = _definitions_of(file)
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        for node in defined.get(one, ()):
            waiting += [
                each
                for inner in ast.walk(node)
                for each in (
                    [inner.id]
                    if isinstance(inner, ast.Name)
                    else [inner.arg]
                    if isinstance(inner, ast.arg)
                    else []
                )
            ]
    return found


@cache
def _definitions_of(file: str) -> dict[str, list[ast.stmt]]:
    found: dict[str, list[ast.stmt]] = {}
    own = _ROOT / file
    for path in (own.with_name("conftest.py"), own):
        for node in ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else ():
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    found.setdefault(node.name, []).append(node)
                case (
                    ast.Assign(targets=[ast.Name(id=name)])
                    | ast.AnnAssign(target=ast.Name(id=name))
                ):
                    found.setdefault(name, []).append(node)
                case _:
                    pass
    return found


@cache
def _functions_of(file: str) -> set[str]:
    tree = ast.parse((_ROOT / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
