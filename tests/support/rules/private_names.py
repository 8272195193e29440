"""Private attributes of other people's classes: what ruff's SLF001 lets pass.

It looks at `thing._name`, but never at `self._name`, which in a subclass may be the base's, nor at
a name that is a text.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Final

from tests.support.rules.structure import Breach

_PACKAGE: Final = "broker_ctl"
# Of named tuples: an underscore keeps them apart from the fields.
_PUBLIC: Final = frozenset({"_asdict", "_fields", "_make", "_replace"})
_BY_TEXT: Final = frozenset({"getattr", "setattr", "delattr", "hasattr"})


def inherited(module: ModuleType) -> Iterator[Breach]:
    """Classes of a module that use what is private to a base from another distribution."""
    for name, cls in vars(module).items():
        if not inspect.isclass(cls) or cls.__module__ != module.__name__:
            continue
        used = _of_self(cls)
        for base in cls.__mro__[1:]:
            if used and _is_foreign(base):
                for private in sorted(used & (_of_self(base) | set(vars(base)))):
                    what = f"{private} is private to {base.__module__}.{base.__qualname__}"
                    yield Breach(f"{module.__name__}:{name}", what)


def by_text(path: Path, source: str) -> Iterator[Breach]:
    """Private attributes that are reached by a text: ``vars(x)["_y"]``, ``getattr(x, "_y")``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="vars"), args=[_]) | ast.Attribute(attr="__dict__"),
                slice=ast.Constant(value=str(private)),
            ) if _is_private(private):
                yield Breach(f"{path}:{node.lineno}", f"reaches {private} by a text")
            case ast.Call(
                func=ast.Name(id=function), args=[_, ast.Constant(value=str(private)), *_]
            ) if function in _BY_TEXT and _is_private(private):
                yield Breach(f"{path}:{node.lineno}", f"reaches {private} by a text")


def _of_self(cls: type) -> set[str]:
    """Private attributes that the methods of a class read or write; empty without a source."""
    try:
        tree = ast.parse(dedent(inspect.getsource(cls)))
    except (OSError, TypeError):
        return set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in {"self", "cls"}
        and _is_private(node.attr)
    }


def _is_foreign(cls: type) -> bool:
    top, _, _ = cls.__module__.partition(".")
    return top not in {_PACKAGE, "tests"} and top not in sys.stdlib_module_names


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _PUBLIC
