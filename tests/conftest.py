"""Fixtures that the whole suite shares."""

import gc
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it has none

from tests.support.server_logs import last_lines
from tests.support.zookeeper.ensemble import SharedEnsemble, fresh_chroot, shared_ensemble

# Properties are judged by their answers: a busy machine must not fail them, and every run draws the
# same examples. `--hypothesis-profile=drawn` draws new ones and prints how to try a find again.
settings.register_profile(
    "fixed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile(
    "drawn", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("fixed")

# Secret files that others can write are refused. A machine's umask may let a test write such files.
os.umask(0o022)

# As Python has it, but the oldest are searched a fifth as often.
_GARBAGE = (700, 10, 50)
_PIPELINE = "tests/pipeline/"
_PAGES = "tests/docs/test_commands_run.py::test_a_page"
# As pyproject.toml has it.
_USUAL = "not pulsar and not slow and not open_tables"
_BASE: pytest.StashKey[Path] = pytest.StashKey()
_BEGAN_S: pytest.StashKey[float] = pytest.StashKey()
# What takes minutes begins first, or it would go on alone when all else is done.
_LONG = (
    _PIPELINE,
    _PAGES,
    "tests/deterministic/",
    "tests/end_to_end/",
    "tests/chaos/",
    "tests/benchmarks/",
)


class _Scheduling(LoadFileScheduling):  # type: ignore[misc]  # as above
    """A file stays in one process, and the pipeline's all in the same: they share one Spark.

    Each page that is played has a world of its own: one process would be long after the others.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_PAGES):
            return nodeid
        return _PIPELINE if nodeid.startswith(_PIPELINE) else nodeid.partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that name what a machine must have, so that no test is skipped unnoticed."""
    parser.addoption(
        "--require-chromium",
        action="store_true",
        help="fail the tests that look at a page where there is no Chromium, in place of skipping",
    )
    parser.addoption(
        "--require-prometheus",
        action="store_true",
        help="fail the test that asks a Prometheus where there is none, in place of skipping",
    )
    parser.addoption(
        "--screenshots",
        metavar="DIRECTORY",
        help="where the tests of the console leave pictures of its pages",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives until the end: no search for garbage has to go through it.

    It is half a million objects, and a third of the time of collecting went into searches.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_GARBAGE)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, in the order of `_LONG`; all others as they were found."""
    items.sort(key=lambda item: _turn(item.nodeid))


def _turn(nodeid: str) -> int:
    return next((turn for turn, each in enumerate(_LONG) if nodeid.startswith(each)), len(_LONG))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows how the logs of the servers end that wrote while the test ran."""
    report = yield
    if report.failed and _BASE in item.config.stash:
        # A server that a fixture of the test has started wrote before the call.
        began_s = item.stash.setdefault(_BEGAN_S, call.start)
        for name, lines in last_lines(item.config.stash[_BASE], began_s):
            report.sections.append((f"last lines of {name}", lines))
    elif call.when == "setup":
        item.stash[_BEGAN_S] = call.start
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """What a usual run leaves out, and how to have it."""
    if hasattr(config, "workerinput") or config.option.markexpr != _USUAL:
        return
    terminalreporter.write_line(
        "left out: `pytest -m slow` runs slow tests (half an hour), tests/pulsar/run those with "
        "a real Pulsar cluster,"
    )
    terminalreporter.write_line(
        "tests/pipeline/open_tables/run those with Iceberg and Delta; what was skipped says above "
        "what it needs"
    )


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling | None:
    """For ``--dist loadfile``; None: xdist's own."""
    return _Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def temporary_files(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """What programs write to the system's directory for such files lies among the tests' own.

    A Spark or a browser that is killed, as tests do it, leaves there what it has.
    """
    pytestconfig.stash[_BASE] = tmp_path_factory.getbasetemp()
    directory = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", directory)
        patch.setattr(tempfile, "tempdir", None)
        # Java asks no environment, but Spark's launcher does.
        patch.setenv("SPARK_LOCAL_DIRS", directory)
        patch.setenv("SPARK_SUBMIT_OPTS", f"-Djava.io.tmpdir={directory} -XX:-UsePerfData")
        if sys.dont_write_bytecode:
            # Daemons would compile their 600 modules at every start, a third of its time.
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(_shared_by_workers(tmp_path_factory)))
        yield


def _shared_by_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for bytecode; each process of xdist has its own files below the run's."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "bytecode"


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedEnsemble]:
    """One real server for the whole session; leave it running, and stay below your `chroot`."""
    with shared_ensemble(tmp_path_factory.mktemp("zookeeper"), 1) as ensemble:
        yield ensemble


@pytest.fixture
def chroot(zookeeper: SharedEnsemble) -> Iterator[str]:
    """A node of this test's own on `zookeeper`, removed after it."""
    with fresh_chroot(zookeeper.connect_string) as path:
        yield path


@pytest.fixture(scope="module")
def servers3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedEnsemble]:
    """Three real servers for one module; ask for `ensemble3`."""
    with shared_ensemble(tmp_path_factory.mktemp("ensemble"), 3) as ensemble:
        yield ensemble


@pytest.fixture
def ensemble3(servers3: SharedEnsemble) -> Iterator[SharedEnsemble]:
    """Three real servers; a test may stop, kill and pause them, they are healed after it."""
    yield servers3
    servers3.heal()
