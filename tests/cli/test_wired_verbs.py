"""Every verb is reached from ``broker-ctl``, and asks for what the table says, at a real daemon."""

import ast
import asyncio
import importlib
import json
import pkgutil
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import pytest
import yaml

import broker_ctl.cli
from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules, Dependencies
from broker_ctl.cli.main import main
from broker_ctl.cli.runtime import verbs
from broker_ctl.cli.runtime.client import DaemonClient
from broker_ctl.cli.runtime.output import label_of
from broker_ctl.clock import SystemClock
from broker_ctl.core.cluster.plan_file import PlanFile, PlannedMove
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.http_client import HttpReply
from broker_ctl.lab.time import in_virtual_time
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import BUNDLES, CLUSTER, RING, TOPICS
from tests.support.daemon.in_memory_daemon import InMemory, settings_of
from tests.support.daemon.wired_verbs import ACTS, DRY, NAMED, READS, Typed, request
from tests.support.http.web_server import free_port

PACKAGE = Path(broker_ctl.cli.__file__).parent
PATH = re.compile(r"/(admin|control|lookup)/v\d")
PLACEHOLDER = re.compile(r"\{\w+(?::(?:[^{}]|\{[^{}]*\})*)?\}")


class Served(InMemory):
    def api(self, dependencies: Dependencies, rules: ApiRules) -> ApiServer:
        return ApiServer(dependencies, rules)


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
        for module in pkgutil.walk_packages([str(PACKAGE)], "broker_ctl.cli.")
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
                texts = (str(p.value) if isinstance(p, ast.Constant) else "*" for p in node.values)
                found.add("".join(texts))
    return {text for text in found if PATH.match(text)}


def test_every_command_is_reached() -> None:
    tree = {id(command) for command in reached(main, click.Context(main))}
    assert {name for key, name in declared().items() if key not in tree} == set()
    assert len(tree) > 50


@in_virtual_time
async def test_every_path_that_a_verb_asks_for_is_a_route() -> None:
    api = Assembly(settings_of("brokerId=1"), Served()).api
    assert isinstance(api, ApiServer)
    routes = [PLACEHOLDER.sub("x", route.path) for route in api.routes()]
    paths = asked_for()
    assert len(paths) > 15
    for path in paths:
        # A verb may add to what stands in its text.
        pattern = re.escape(path).replace(r"\*", ".+").replace(r"\{\}", ".+")
        if not any(re.match(pattern, route) for route in routes):
            pytest.fail(f"{path} is not a route")


# What a verb asks for.

# Of every verb that asks a daemon, or acts: target and acts.
COMMON = {
    *("--url", "--token-file", "--trusted-hosts", "--allow-cleartext"),
    *("--tls-ca", "--tls-cert", "--timeout", "--output"),
}
ACTING = {"--dry-run", "--yes"}
# Of every verb that shows something, from `broker_ctl.cli.runtime.verbs`.
WATCHING = {"-w", "--watch", "--interval"}
# Writes a file each time.
UNWATCHED = {"partitions reassign plan", "support-bundle"}


def verbs_that_ask(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """All that take the address of a daemon, by what is typed."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            yield from verbs_that_ask(below, (*words, name))
    elif options_of(command) >= COMMON:
        yield " ".join(words), command


@cache
def known_verbs() -> Mapping[str, click.Command]:
    """All that ask a daemon; longer names first, or a group would be taken for its verb."""
    return dict(sorted(verbs_that_ask(main), key=lambda one: len(one[0]), reverse=True))


def options_of(command: click.Command) -> set[str]:
    options = (one for one in command.params if isinstance(one, click.Option))
    return {name for one in options for name in (*one.opts, *one.secondary_opts)}


def verb_of(typed: Typed) -> str:
    """The verb of a row."""
    return next(verb for verb in known_verbs() if f"{typed.words} ".startswith(f"{verb} "))


def test_every_verb_with_every_option_is_in_the_table() -> None:
    asked = known_verbs()
    short = {"-c", "-p"}
    assert len(asked) > 60
    declared = {
        f"{verb} {option}".strip()
        for verb, command in asked.items()
        for option in {"", *(options_of(command) - COMMON - ACTING - WATCHING - short)}
    }
    in_table = {
        f"{verb_of(row)} {word}".strip()
        for row in (*READS, *ACTS)
        for word in {"", *(word for word in row.words.split() if word.startswith("--"))}
    }
    assert declared == in_table
    acting = {verb for verb, command in asked.items() if options_of(command) >= ACTING}
    # These show something where nothing is named.
    assert {verb_of(row) for row in ACTS} == acting
    shown = {verb_of(row) for row in READS}
    assert shown & acting == {"drain", "plan"}
    watched = {verb for verb, command in asked.items() if options_of(command) >= WATCHING}
    assert watched == shown - UNWATCHED


class Terminal:
    """A cluster, and what its follower was asked for by verbs."""

    def __init__(self, cluster: Cluster, asked: list[str]) -> None:
        self._cluster = cluster
        self._asked = asked
        self.shown = ""

    def type(self, words: str, *more: str) -> list[str]:
        """The requests of a verb that goes well."""
        self._asked.clear()
        typed = [self._brokers(word) for word in (*shlex.split(words), *more)]
        result = self._cluster.run(*typed)
        assert result.exit_code == 0, (words, result.output)
        self.shown = result.stdout
        return list(self._asked)

    def _brokers(self, word: str) -> str:
        leader, follower = self._cluster.leader, self._cluster.follower
        return word.replace("LEADER", leader.broker_id).replace("FOLLOWER", follower.broker_id)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGNAME", NAMED)
    move = PlannedMove(BUNDLES[0], "a:1", "b:1", 1.0)
    now_ms = SystemClock().wall_ms()
    plan = PlanFile(CLUSTER, 0, now_ms - 1, now_ms, (move,), (2.0,), (1.0,)).to_row()
    (tmp_path / "placement.json").write_text(json.dumps(plan), encoding="utf-8")
    (tmp_path / "broker.conf").write_text("clusterName=c1\n", encoding="utf-8")
    asked: list[str] = []
    names: dict[str, str] = {}
    send = DaemonClient._send

    async def noted(self: DaemonClient, method: str, url: str, body: Any) -> HttpReply:
        if url.startswith(self._url):
            target = url.removeprefix(self._url)
            for broker_id, name in names.items():
                target = target.replace(broker_id, name).replace(quote(broker_id), name)
            asked.append(request(method, target, "placement.json" if body == plan else body))
        return await send(self, method, url, body)

    monkeypatch.setattr(DaemonClient, "_send", noted)
    with running([free_port(), free_port()]) as cluster:
        names |= {cluster.leader.broker_id: "LEADER", cluster.follower.broker_id: "FOLLOWER"}
        asyncio.run(cluster.leader.serve(RING.bundle_of(TOPICS[0])))
        yield Terminal(cluster, asked)


@pytest.mark.parametrize("row", READS, ids=lambda row: row.words)
def test_what_a_verb_that_shows_something_asks_for(terminal: Terminal, row: Typed) -> None:
    for words in row.given:
        prepare(terminal, words)
    assert tuple(terminal.type(row.words)) == row.asks


@pytest.mark.parametrize("row", READS, ids=lambda row: row.words)
def test_what_is_shown_has_every_format_and_is_watched(
    terminal: Terminal, row: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in row.given:
        prepare(terminal, words)
    # A first look may place a bundle, or end a reassignment.
    terminal.type(row.words)
    terminal.type(row.words, "--output", "json")
    value = json.loads(terminal.shown)
    terminal.type(row.words, "--output", "yaml")
    assert outline(yaml.safe_load(terminal.shown)) == outline(value)
    terminal.type(row.words, "--output", "wide")
    assert set(field_labels(value)) <= set(terminal.shown.split())
    if verb_of(row) in UNWATCHED:
        return
    rounds = iter([None, KeyboardInterrupt])

    def pause(interval_s: float) -> None:
        assert interval_s == 7
        if (ends := next(rounds)) is not None:
            raise ends

    monkeypatch.setattr(verbs, "pause", pause)
    asks = terminal.type(row.words, "--watch", "--interval", "7", "--output", "yaml")
    assert tuple(asks) == row.asks * 2
    documents = list(yaml.safe_load_all(terminal.shown))
    assert [outline(each) for each in documents] == [outline(value)] * 2


def outline(value: Any) -> Any:
    """A value without its numbers, of which some change all the time."""
    match value:
        case dict():
            return {name: outline(each) for name, each in value.items()}
        case list():
            return [outline(each) for each in value]
        case bool() | str() | None:
            return value
        case _:
            return "number"


def field_labels(value: Any) -> Iterator[str]:
    """The words of the fields at the top of what is shown; a list of them has a table."""
    if isinstance(value, dict):
        value = [{name: each for name, each in value.items() if not isinstance(each, dict | list)}]
    for row in value:
        if isinstance(row, dict):
            for name in row:
                yield from label_of(name).split()


@pytest.mark.parametrize("row", ACTS, ids=lambda row: row.words)
def test_what_a_verb_that_acts_asks_for(terminal: Terminal, row: Typed) -> None:
    for words in row.given:
        prepare(terminal, words)
    # A dry run is asked for in the same words, and nothing else is.
    dry = terminal.type(row.words, "--dry-run")
    assert dry == [line for line in row.asks[: len(dry)] if is_harmless(line)]
    assert any(DRY in line for line in dry)
    for words in row.again:
        prepare(terminal, words)
    assert tuple(terminal.type(row.words, "--yes")) == row.asks


def prepare(terminal: Terminal, words: str) -> None:
    acts = {verb_of(row) for row in ACTS}
    terminal.type(words, *(["--yes"] if verb_of(Typed(words, ())) in acts else []))


def is_harmless(line: str) -> bool:
    # The leader judges a placement plan by this route, and keeps nothing of it.
    return DRY in line or line.startswith(("GET ", "POST /control/v1/plans "))
