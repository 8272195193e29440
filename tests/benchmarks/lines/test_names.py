"""What benchmarks name is there: nobody runs most of them between two releases.

mypy sees names of Python. It does not see names in texts: keys of settings, metrics, routes, log
lines, and the commands with which the documentation runs a benchmark.
"""

import ast
import logging
import re
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_args

import pytest

from broker_ctl.core.model.commands import Command
from broker_ctl.instruments.declared import exposed_names
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.settings.pulsar_keys import OLD_KEYS
from broker_ctl.settings.root import DECLARATIONS
from docs._ext import reference_http
from tests.benchmarks.lines import log_lines
from tests.support.rules.families import for_each

HERE: Final = Path(__file__).parents[1]
ROOT: Final = HERE.parents[1]
SOURCES: Final = {
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path
    for path in sorted(HERE.rglob("*.py"))
    if path != Path(__file__)
}
SCRIPTS: Final = [
    path for path in SOURCES.values() if path.parent == HERE and "\nif __name__" in path.read_text()
]
PAGES: Final = [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "tests").rglob("*.md"))]
COMMAND: Final = re.compile(r"(tests/benchmarks/\w+\.py)([^`]*)`")
METRIC: Final = re.compile(r"(?:broker_ctl|pulsar_broker|kafka_controller|kafka_server)_\w+")
ROUTE: Final = re.compile(r"/?((?:admin/v2|control/v1|lookup/v2)/[\w/-]*)")
# The format of the line that each pattern is for, and what fills it.
LINES: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "CONTROLLER_LOADED": (
        (
            "epoch %d: %d brokers, %d topics, %d partitions read in %.3f s, elected and sent in "
            "%.3f s; %d are offline"
        ),
        (2, 7, 10, 500, 0.25, 0.125, 0),
    ),
    "BROKER_ACKNOWLEDGED": (
        "broker %d acknowledged %d partition updates in %.3f s",
        (3, 500, 0.125),
    ),
    "SESSION_OPENED": (
        "session %d: %s -> %s (%s)",
        (2, "none", "connected", "opened"),
    ),
    "SESSION_REACQUIRED": (
        "session %d: kept %d of %d bundles in %.3f s, at most %d acquisitions at once",
        (2, 199, 200, 0.5, 64),
    ),
    "CYCLE_ENDED": ("cycle %d took %.3f s: %s", (4, 0.125, "nothing to do")),
}


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def texts_in(path: Path) -> Iterator[str]:
    """All texts, and the fixed parts of those with braces; no docstrings, which are prose."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            yield node.value


def imports_in(path: Path) -> Iterator[tuple[str, str]]:
    """Module and name, also where an import is inside a function; the name may be empty."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            yield from ((node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)


def is_there(module: str, name: str) -> bool:
    try:
        if not name or hasattr(import_module(module), name):
            return bool(import_module(module))
        return bool(import_module(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


def attributes_in(path: Path) -> Iterator[tuple[ModuleType, str]]:
    """What is taken from the modules that a file imports by name."""
    bound: dict[str, ModuleType] = {}
    tree = tree_of(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            of = import_module(node.module or "")
            for each in node.names:
                found = getattr(of, each.name, None)
                if isinstance(found, ModuleType):
                    bound[each.asname or each.name] = found
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = bound.get(node.value.id)
            if module is not None:
                yield module, node.attr


def main_of(script: Path) -> Any:
    return import_module(f"tests.benchmarks.{script.stem}").main


def settings_in(path: Path) -> Iterator[str]:
    """Keys of the dictionaries of which a key is a setting, and all earlier keys of settings."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Dict):
            keys = [each.value for each in node.keys if isinstance(each, ast.Constant)]
            if any(key in DECLARATIONS for key in keys):
                yield from map(str, keys)
    yield from (text for text in texts_in(path) if text in OLD_KEYS)


@cache
def served() -> frozenset[str]:
    """All routes; that of commands is one for each verb."""
    paths = [route.path.removeprefix("/") for route in reference_http.routes()]
    verbs = [command.verb for command in get_args(Command)]
    return frozenset(path.replace("{verb}", verb) for path in paths for verb in verbs)


def is_served(path: str) -> bool:
    """Whether there is a route that begins as a path does, as far as both are fixed."""
    for route in served():
        fixed, hole, _ = route.partition("{")
        if path == fixed or (hole and path.startswith(fixed)):
            return True
        if path.endswith("/") and fixed.startswith(path):
            return True
    return False


def formats_in_the_package() -> set[str]:
    return {
        argument.value
        for path in (ROOT / "broker_ctl").rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call)
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def documented() -> list[tuple[str, str]]:
    """Scripts and their options, as pages type them."""
    return sorted({found for page in PAGES for found in COMMAND.findall(page.read_text())})


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of the command line; a script puts the root of the checkout on the path of imports."""
    words = ["benchmark"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return words


@for_each("name", SOURCES)
def test_every_name_that_a_benchmark_imports_exists(name: str) -> None:
    missing = [each for each in imports_in(SOURCES[name]) if not is_there(*each)]
    assert missing == []
    assert is_there(name, "")
    taken = attributes_in(SOURCES[name])
    assert [(str(module), each) for module, each in taken if not hasattr(module, each)] == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_benchmark_has_a_help(
    script: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments.append("--help")
    with pytest.raises(SystemExit) as ended:
        main_of(script)()
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert "--json" in shown
    (first, *_) = (import_module(f"tests.benchmarks.{script.stem}").__doc__ or "").splitlines()
    assert first.split()[0] in shown


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_benchmark_says_how_busy_the_machine_was(script: Path) -> None:
    called = [
        node.func.id
        for node in ast.walk(tree_of(script))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert "with_machine_load" in called


@pytest.mark.parametrize("name", SOURCES)
def test_settings_metrics_and_routes_of_a_benchmark_are_those_of_today(name: str) -> None:
    path = SOURCES[name]
    assert [key for key in settings_in(path) if key not in DECLARATIONS] == []
    texts = list(texts_in(path))
    metrics = [text for text in texts if METRIC.fullmatch(text)]
    # The parser of expositions drops the suffix of a counter.
    assert [
        one for one in metrics if not {one, f"{one}_total", f"{one}_count"} & exposed_names()
    ] == []
    paths = [found[1] for text in texts for found in ROUTE.finditer(text)]
    assert [each for each in paths if not is_served(each)] == []


def test_daemons_write_the_lines_that_benchmarks_look_for() -> None:
    patterns = {
        name: pattern
        for name, pattern in vars(log_lines).items()
        if isinstance(pattern, re.Pattern) and not name.startswith("_")
    }
    assert patterns.keys() == LINES.keys()
    assert {text for text, _ in LINES.values()} - formats_in_the_package() == set()
    unseen = [name for name, (text, of) in LINES.items() if not patterns[name].search(text % of)]
    assert unseen == []


def test_a_line_of_a_log_is_taken_apart(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path, 1, {})
    daemon.release_ports()
    record = logging.LogRecord(
        *("broker_ctl.balancer.planning.cycle", logging.DEBUG, "", 0), *LINES["CYCLE_ENDED"], None
    )
    assert record.getMessage() == "cycle 4 took 0.125 s: nothing to do"
    head = "2026-01-01 12:00:00.250 DEBUG   balancer.planning.cycle:"
    daemon.files.log.write_text(f"{head} {record.getMessage()}\nTraceback\n")
    ((at_s, found),) = log_lines.matches(daemon, log_lines.CYCLE_ENDED)
    assert (at_s % 1, found[1]) == (0.25, "0.125")
    assert not list(log_lines.matches(daemon, log_lines.CYCLE_ENDED, since_s=at_s + 1))


def test_a_page_names_every_benchmark_with_options_that_it_has(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = documented()
    # `sweep` is a part of `pipeline`.
    here = {path.relative_to(ROOT).as_posix() for path in SCRIPTS if path.stem != "sweep"}
    assert {script for script, _ in typed} == here

    def end(parser: ArgumentParser, *_: object) -> Any:
        unknown = ArgumentParser.parse_known_args(parser)[1]
        raise SystemExit(repr(unknown) if unknown else 0)

    monkeypatch.setattr(ArgumentParser, "parse_args", end)
    for script, options in typed:
        arguments[1:] = shlex.split(options)
        with pytest.raises(SystemExit) as ended:
            main_of(ROOT / script)()
        assert not ended.value.code, script


def test_the_task_of_the_makefile_runs_all_benchmarks_without_foreign_systems() -> None:
    shown = subprocess.run(
        ["make", "-n", "benchmarks"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    ).stdout
    here = {path.relative_to(ROOT).as_posix() for path in SCRIPTS}
    run = set(re.findall(r"tests/benchmarks/\w+\.py", shown))
    assert run == {path for path in here if "pulsar" not in path and "kafka" not in path}
