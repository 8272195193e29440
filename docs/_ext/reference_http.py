"""The HTTP API as a page, from the route table and the handlers."""

import ast
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final
from unittest.mock import MagicMock

from aiohttp import web

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.attach.server import AttachedRoutes
from docs._ext.markdown import code, entry, escape

_PATTERN: Final = re.compile(r"\{(\w+):[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
# What reads a query parameter that its second argument names.
_READERS: Final = frozenset({"flag", "whole_number_in", "positive_in"})


def page() -> str:
    """By the first words of the path."""
    return "\n".join(_sections())


def routes() -> list[web.RouteDef]:
    """All that a broker serves; the handlers are never called, so what they need is made up."""
    parts = MagicMock(
        spec=Dependencies, **{name: MagicMock() for name in Dependencies.__dataclass_fields__}
    )
    return ApiServer(parts, ApiRules("cluster")).routes()


def attached_routes() -> list[web.RouteDef]:
    """What a daemon beside a Pulsar cluster serves of its own."""
    return AttachedRoutes(MagicMock(), "cluster").routes()


def readable(path: str) -> str:
    """The path without the patterns of its parts."""
    return _PATTERN.sub(r"{\1}", path)


def _sections() -> Iterator[str]:
    groups = defaultdict(list)
    for route in routes():
        groups[_group(route.path)].append(route)
    for title, members in groups.items():
        yield f"## {code(title)}\n"
        yield from map(_entry, members)
    yield "## A daemon beside a Pulsar cluster\n"
    yield (
        "With `dataPlane=pulsar` the daemon serves these, and of the above what steers and shows "
        "the balancing, `/livez`, `/readyz` and `/metrics`.\n"
    )
    yield from map(_entry, attached_routes())


def _group(path: str) -> str:
    words = [word for word in path.split("/") if word]
    count = 3 if words[0] == "admin" else 2
    fixed = [word for word in words[:count] if "{" not in word]
    return "/" + "/".join(fixed)


def _entry(route: web.RouteDef) -> str:
    purpose = (inspect.getdoc(route.handler) or "").partition("\n\n")[0]
    parameters = sorted(query_parameters(route.handler))
    asked = f"Query parameters: {', '.join(map(code, parameters))}" if parameters else ""
    return entry(code(f"{route.method} {readable(route.path)}"), escape(_one_line(purpose)), asked)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def query_parameters(handler: Callable[..., Any]) -> set[str]:
    """The names that a handler asks the query for, itself or in what it calls in its module."""
    named = {"dry_run"} if getattr(handler, "supports_dry_run", False) else set()
    module = inspect.getmodule(handler)
    assert module is not None
    functions = _functions(module)
    waiting, seen = [inspect.unwrap(handler).__name__], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for function in functions.get(name, ()):
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    named |= _named_by(node)
                    waiting.append(_called(node))
    return named


def _functions(module: ModuleType) -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = defaultdict(list)
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(module)))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name].append(node)
    return found


def _named_by(node: ast.Call) -> set[str]:
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(attr="query"), attr="get"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return {name}
        case ast.Call(func=ast.Name(id=reader), args=[_, ast.Constant(value=str(name)), *_]):
            return {name} if reader in _READERS else set()
        case _:
            return set()


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""
