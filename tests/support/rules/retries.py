"""Loops that could be retries: each call is repeated by `broker_ctl.retry`, or is an exception.

A retry that a room writes by hand has no jitter, logs each attempt, and judges errors by itself.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_LOOPS = ast.While | ast.For | ast.AsyncFor


def by_hand(path: Path, source: str) -> Iterator[str]:
    """Functions with a loop that catches errors, and pauses by a sleep."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.AsyncFunctionDef):
            loops = (node for node in _own(function) if isinstance(node, _LOOPS))
            if any(_catches(loop) and _pauses(loop) for loop in loops):
                yield f"{path}:{function.name}"


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """All below ``node`` except for what nested functions have."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _FUNCTIONS):
            yield from _own(child)


def _catches(loop: ast.AST) -> bool:
    return any(isinstance(node, ast.Try) and node.handlers for node in _own(loop))


def _pauses(loop: ast.AST) -> bool:
    return any(isinstance(node, ast.Await) and _is_pause(node.value) for node in _own(loop))


def _is_pause(call: ast.expr) -> bool:
    """Whether it sleeps; a sleep of 0 s only lets others run."""
    match call:
        case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=[length]):
            return not (isinstance(length, ast.Constant) and length.value == 0)
    return False
