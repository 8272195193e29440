"""Every verb is reached from ``broker-ctl``, and every path that one asks for is a route."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import broker_ctl.cli
from broker_ctl.cli.main import main
from broker_ctl.daemon.assembly import assemble
from broker_ctl.surface.parts import Parts, SurfaceRules
from broker_ctl.surface.server import Surface
from tests.support.in_memory_daemon import InMemory, settings_of
from tests.support.virtual_time import in_virtual_time

PACKAGE = Path(broker_ctl.cli.__file__).parent
PATH = re.compile(r"/(admin|control|lookup)/v\d")
PLACEHOLDER = re.compile(r"\{\w+(?::(?:[^{}]|\{[^{}]*\})*)?\}")


class Served(InMemory):
    def surface(self, parts: Parts, rules: SurfaceRules) -> Surface:
        return Surface(parts, rules)


def reached(command: click.Command, context: click.Context) -> Iterator[click.Command]:
    """A command, and all below it."""
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from reached(below, context)


def declared() -> dict[int, str]:
    """Every command that stands in a module, by identity."""
    return {
        id(value): f"{module.name}:{name}"
        for module in pkgutil.iter_modules([str(PACKAGE)], "broker_ctl.cli.")
        for name, value in vars(importlib.import_module(module.name)).items()
        if isinstance(value, click.Command)
    }


def asked_for() -> set[str]:
    """The paths in the text of the verbs; ``*`` for what is filled in."""
    found: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (str(p.value) if isinstance(p, ast.Constant) else "*" for p in node.values)
                found.add("".join(parts))
    return {text for text in found if PATH.match(text)}


def test_every_command_is_reached() -> None:
    tree = {id(command) for command in reached(main, click.Context(main))}
    assert {name for key, name in declared().items() if key not in tree} == set()
    assert len(tree) > 50


@in_virtual_time
async def test_every_path_that_a_verb_asks_for_is_a_route() -> None:
    surface = assemble(settings_of("brokerId=1"), Served()).surface
    assert isinstance(surface, Surface)
    routes = [PLACEHOLDER.sub("x", route.path) for route in surface.routes()]
    paths = asked_for()
    assert len(paths) > 15
    for path in paths:
        # A verb may add to what stands in its text.
        pattern = re.escape(path).replace(r"\*", ".+").replace(r"\{\}", ".+")
        if not any(re.match(pattern, route) for route in routes):
            pytest.fail(f"{path} is no route")
