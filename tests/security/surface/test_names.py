"""Names from outside as words of paths, commands and shells, wherever the code takes one."""

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest

import broker_ctl
from broker_ctl.cli.main import main
from broker_ctl.cli.runtime import verbs
from broker_ctl.core.partitions.values import TopicPartition
from broker_ctl.errors import InvalidName, InvalidPath
from broker_ctl.lab.replication.storage import DirectoryStorage
from broker_ctl.store import paths
from tests.security.surface.conftest import TOKENS
from tests.support.clusters.fake_services import Broker
from tests.support.security.surface import ROUTES, Asker, bearer

PACKAGE: Final = Path(broker_ctl.__file__).parent
LEAVING: Final = ["", ".", "..", "a/b", "/a", "a\x00", "a\x1f", "\ud800", "\U0001f600"]
# As they are written in a path.
HOSTILE: Final = (
    *(".", "..", "%2e", "%2e%2e", "..%2f..", "%2e%2e%2fx", "a%2fb", "%2f", "a%5cb"),
    *("%00", "%0a", "%0d%0aX-Forged:%20y", "%1b%5b2J", "%7f", "%c2%85", "%e2%80%ae"),
    *("%ff", "%ed%a0%80", "%f0%9f%98%80", "%", "%zz"),
    *("-oProxyCommand=x", "--help", "$(touch%20x)", "`x`", "*", "x;y", "'", '"', "x%20y"),
    *(
        "{x}",
        "%7bx%7d",
        "x" * 300,
        "x" * 4000,
        "__proto__",
        "0x00000000_0xffffffff",
        "-1",
        "9" * 40,
    ),
)
# What of these no node may have in its name.
NEVER: Final = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0xFFFD)} | {"/"}
# Modules that start another process, and where its words come from.
STARTING: Final = {
    "cli/rollout_driver.py": "words_for: the operator's, with the parts of an id of a broker",
    "cli/diagnosis.py": "our own",
    "lab/embedded/daemons.py": "our own, with the path of a file that it has written",
    "lab/embedded/guard.py": "those with which our own process has started it",
    "lab/embedded/server.py": "our own, with the path of a file that it has written",
    "java.py": "the operator's JAVA_HOME",
}
RUNNING: Final = {
    *("create_subprocess_exec", "create_subprocess_shell", "Popen", "check_call", "check_output"),
    *("system", "popen", "execv", "execve", "execvp", "spawnv", "posix_spawn", "startfile"),
}


def builders() -> Iterator[tuple[str, Callable[..., str], int]]:
    """Each function that makes a path, with each of its parameters that is a text."""
    for module in (paths, paths):
        for name, kept in vars(module).items():
            build = inspect.unwrap(kept) if callable(kept) else kept
            if not inspect.isfunction(build) or build.__module__ != module.__name__:
                continue
            if name.startswith("_") or build.__annotations__["return"] is not str:
                continue
            for place, parameter in enumerate(inspect.signature(build).parameters.values()):
                # Those of a path that has been built already.
                if parameter.annotation is str and not parameter.name.endswith("path"):
                    yield name, build, place


BUILDERS: Final = {f"{name} {place}": (build, place) for name, build, place in builders()}


@pytest.mark.parametrize("name", LEAVING)
@pytest.mark.parametrize("builder", sorted(BUILDERS))
def test_no_path_is_made_of_a_name_that_leaves_its_place(builder: str, name: str) -> None:
    build, place = BUILDERS[builder]
    others = [
        "x" if each.annotation is str else None
        for each in inspect.signature(build).parameters.values()
    ]
    given: list[Any] = [name if at == place else each for at, each in enumerate(others)]
    with pytest.raises((InvalidName, InvalidPath)):
        build(*given)


def test_each_family_of_paths_is_among_them() -> None:
    assert len(BUILDERS) >= 20
    assert {"registration 0", "drain 0", "plan 0", "tenant 0", "topic 0", "deletion 0"} <= set(
        BUILDERS
    )


@pytest.mark.parametrize("name", [*LEAVING, "a b", "a:b", "a\\b", "x" * 250])
def test_no_name_of_a_topic_of_the_controller_leaves_a_directory(name: str, tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path)
    with pytest.raises(InvalidName):
        storage._log_path(TopicPartition(name, 0))


async def test_no_name_in_a_path_breaks_a_route_or_reaches_a_node(secured: Broker) -> None:
    tree = secured.metadata._ensemble.tree
    before = {node.path for node in tree.nodes()}
    asker = Asker(secured.url, bearer(TOKENS["admin"]))
    asked = 0
    for route in ROUTES:
        for name in HOSTILE if route.variables else ():
            answer = await asker.ask(route.method, route.path(name), body=b"{}")
            asked += 1
            # 501: of the broker process; 503: of a part that these servers do not have.
            assert answer.status < 500 or answer.status in {501, 503}, (route, name, answer)
            assert "\r\nx-forged" not in answer.head
    asker.close()
    made = {node.path for node in tree.nodes()} - before
    names = {step for path in made for step in path.split("/")[1:]}
    assert {name for name in names if NEVER & set(name) or name in {".", ".."}} == set()
    assert asked > 2000


def calls_of_processes() -> Iterator[str]:
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr=name)) if name in RUNNING:
                    yield file.relative_to(PACKAGE).as_posix()
                case ast.Call(func=ast.Attribute(value=ast.Name("subprocess"), attr="run")):
                    yield file.relative_to(PACKAGE).as_posix()


def test_each_module_that_starts_a_process_is_known_by_its_words() -> None:
    assert set(calls_of_processes()) == STARTING.keys()


FINDERS: Final = sorted(verbs._FINDERS)


@pytest.mark.parametrize("finder", FINDERS)
def test_no_parameter_is_completed_with_what_a_shell_would_read(
    finder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = ["$(x)", "-o", "a b", "a;b", "`x`", "a\nb", "~", "*", "a'b", "é", "a\\b", "a|b"]
    monkeypatch.setattr(verbs, "_ask", lambda *_: [*hostile, "plain:8080"])
    found = [
        (command, parameter)
        for command in every_command()
        for parameter in command.params
        if isinstance(parameter.type, verbs.LiveName) and parameter.name == finder
    ]
    assert found
    for command, parameter in found:
        context = click.Context(command)
        offered = parameter.type.shell_complete(context, parameter, "")
        assert [item.value for item in offered] == ["plain:8080"]


def every_command() -> list[click.Command]:
    def below(group: click.Command, context: click.Context) -> Iterator[click.Command]:
        if not isinstance(group, click.Group):
            yield group
            return
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from below(command, context)

    return list(below(main, click.Context(main)))
