"""The pipeline on a cluster: a standalone master and two workers, as processes of this machine.

    python -m tests.pipeline.spark_cluster

A history is taken in by spark-submit, then profiled and back-tested by broker-ctl with the settings
that are in deploy/spark. The Python of the workers has not got the package: it comes to them with
the job. One process takes in and profiles the same: the rows of the tables must be equal, and those
of the profile up to the order of their sums. What the cluster replays is what a replay in
this process says, to the bit. Prints one JSON object; the exit code is 1 where something is not as
it should be.
"""

import asyncio
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from zipfile import ZipFile

import pyspark

from broker_ctl.cli.pipeline.backtest import to_row
from broker_ctl.pipeline.backtest.job import CandidateVerdict, Replays
from broker_ctl.pipeline.backtest.results import Candidate, Named
from broker_ctl.pipeline.backtest.tasks import replay_task, synthetic_trace, tasks_of
from broker_ctl.pipeline.tables import HISTORY
from broker_ctl.simulation.replay.replay import POLICIES
from broker_ctl.simulation.workload.scenario_workload import WorkloadSource
from tests.support.http.web_server import free_port
from tests.support.pipeline.duckdb_oracle import answered
from tests.support.pipeline.segment_files import small_history
from tests.support.time.waiting import eventually

_ROOT = Path(__file__).resolve().parents[2]
_SPARK = Path(pyspark.__file__).parent
_DEPLOY = _ROOT / "deploy" / "spark"
_DEADLINE_S = 900.0
_END_S = 60.0
_POLL_S = 0.3
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_SCENARIO, _HOURS, _BROKERS, _SEEDS = "steady-skew", 1, 2, 2
# For one machine, with a driver that is reached by this address only.
_SMALL = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def spark_cluster(directory: Path) -> dict[str, Any]:
    """Start the cluster, use it, and compare its results."""
    history, there, here = (directory / name for name in ("history", "there", "here"))
    lines = small_history(history, segments=2)
    environ = _environ(directory)
    with ExitStack() as stack:
        master, page = _raised(stack, directory, environ)
        taken = _ingested(directory, environ, master, history, there / "tables")
        _run(directory, environ, *_profile(there), *_on_cluster(master))
        replays = _back_tested(directory, environ, master, there)
        state = _page(page)
    own = ("--master", "local[1]", *_settings())
    # Workers of this process have the package.
    _run(directory, os.environ, "ingest", history, "--tables", here / "tables", *own)
    _run(directory, os.environ, *_profile(here), *own)
    used = [len([*(directory / name).glob("app-*")]) for name in ("worker-1", "worker-2")]
    found = {
        "rows": taken["rows"],
        "replays": len(replays["replays"]),
        "traces": sorted({row["trace"] for row in replays["replays"]}),
        "workers": len(state["workers"]),
        "applications_of_workers": used,
        "finished": [app["state"] for app in state["completedapps"]],
        "profile_rows": len(_profile_rows(there)),
        "has_same_rows": _rows_of_tables(there) == _rows_of_tables(here),
        "has_same_profile": _are_alike(_profile_rows(there), _profile_rows(here)),
        "has_same_replays": _of_scenario(replays) == _replayed_here(),
    }
    found["is_right"] = (
        all(found[name] for name in ("has_same_rows", "has_same_profile", "has_same_replays"))
        and found["traces"] == ["cluster:small", _SCENARIO]
        and taken["rows"] == sum(lines.values())
        and taken["faulty_lines"] == 0
        and found["workers"] == 2
        and used == [3, 3]
        and found["finished"] == ["FINISHED"] * 3
    )
    return found


def _profile(directory: Path) -> tuple[object, ...]:
    only = ("--only", "hour_profiles", "--only", "load_skew")
    return ("profile", directory / "tables", "--to", directory / "profiles", *only)


def _rows_of_tables(directory: Path) -> dict[str, list[Any]]:
    """Ids of the rows of each table of the history."""
    return {
        name: answered(f"SELECT id FROM read_parquet('{path}/**/*.parquet') ORDER BY ALL")
        for name in HISTORY
        if (path := directory / "tables" / name).exists()
    }


def _profile_rows(directory: Path) -> list[Any]:
    return answered(
        "SELECT cluster, bundle, hour, days, bytes_s, usage_ratio"
        f" FROM '{directory}/profiles/hour_profiles/*.parquet' ORDER BY ALL"
    )


def _are_alike(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(
        one[:4] == other[:4] and all(map(math.isclose, one[4:], other[4:]))
        for one, other in zip(some, others, strict=True)
    )


def _of_scenario(replays: Any) -> list[dict[str, Any]]:
    return [row for row in replays["replays"] if row["trace"] == _SCENARIO]


def _raised(stack: ExitStack, directory: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """URL of the master, and of its page; all of it ends with the stack."""
    port, web = free_port(), free_port()
    url, page = f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{web}/json/"
    at = ("--host", "127.0.0.1", "--port", port, "--webui-port", web)
    stack.enter_context(_daemon(directory / "master.log", environ, _MASTER, *at))
    _wait_for_workers(page, 0)
    for number in (1, 2):
        name = f"worker-{number}"
        words = ("--host", "127.0.0.1", "--cores", 1, "--memory", "600m", "--webui-port", 0)
        where = ("--work-dir", directory / name, url)
        stack.enter_context(_daemon(directory / f"{name}.log", environ, _WORKER, *words, *where))
    _wait_for_workers(page, 2)
    return url, page


@contextmanager
def _daemon(log: Path, environ: Mapping[str, str], name: str, *words: object) -> Iterator[None]:
    command = [str(_SPARK / "bin" / "spark-class"), name, *map(str, words)]
    with (
        log.open("wb") as said,
        subprocess.Popen(
            command, env=environ, stdout=said, stderr=said, start_new_session=True
        ) as process,
    ):
        try:
            yield
        finally:
            # With what it has started itself.
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        # Processes of the group that are still alive are killed.
        os.killpg(process.pid, signal.SIGKILL)


def _wait_for_workers(page: str, count: int) -> None:
    def are_there() -> bool:
        with contextlib.suppress(URLError, ConnectionError, TimeoutError):
            states: list[str] = [worker["state"] for worker in _page(page)["workers"]]
            return states.count("ALIVE") == count
        return False

    what = f"{page}: {count} workers"
    asyncio.run(eventually(are_there, _DEADLINE_S, what, poll_s=_POLL_S))


def _page(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)


def _packages() -> list[str]:
    return [path for path in sys.path if path.endswith("site-packages")]


def _environ(directory: Path) -> dict[str, str]:
    """Of all processes; the Python of the workers does not find this package by itself."""
    python = directory / "python"
    python.write_text(
        "#!/bin/sh\n"
        "# Without -S it would follow the .pth file of an editable installation.\n"
        f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{":".join(_packages())}"\n'
        f'export PYTHONPATH\nexec {sys.executable} -S "$@"\n'
    )
    python.chmod(0o755)
    return {
        **os.environ,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(_SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        # It would listen on a port of its own, which another process may have.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_LOCAL_DIRS": str(directory / "scratch"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _ingested(
    directory: Path, environ: Mapping[str, str], master: str, history: Path, tables: Path
) -> Any:
    package = directory / "broker_ctl.zip"
    with ZipFile(package, "w") as zipped:
        for path in sorted((_ROOT / "broker_ctl").rglob("*.py")):
            zipped.write(path, path.relative_to(_ROOT))
    submitted = [_DEPLOY / "submitted.py", "pipeline", "ingest", history, "--tables", tables]
    return _answer(
        directory,
        environ,
        *(_SPARK / "bin" / "spark-submit", "--master", master, "--py-files", package),
        *(*_settings(), *submitted, "--master", master, "--output", "json"),
    )


def _back_tested(directory: Path, environ: Mapping[str, str], master: str, there: Path) -> Any:
    extent = ("--hours", _HOURS, "--brokers", _BROKERS, "--seeds", _SEEDS)
    places = ("--tables", there / "tables", "--to", there / "results")
    policies = ("--policy", "balance", "--policy", "threshold")
    words = ("backtest", _SCENARIO, *extent, *places, *policies, *_on_cluster(master))
    return _run(directory, environ, *words)


def _on_cluster(master: str) -> tuple[object, ...]:
    return ("--config", _DEPLOY / "cluster.conf", "--master", master, *_settings())


def _settings() -> list[str]:
    return [word for key, value in _SMALL.items() for word in ("--conf", f"{key}={value}")]


def _run(directory: Path, environ: Mapping[str, str], *words: object) -> Any:
    """What a verb of the pipeline prints."""
    command = (sys.executable, "-m", "broker_ctl", "pipeline", *words, "--output", "json")
    return _answer(directory, environ, *command)


def _answer(directory: Path, environ: Mapping[str, str], *words: object) -> Any:
    done = subprocess.run(
        [*map(str, words)],
        env=environ,
        cwd=directory,
        capture_output=True,
        check=False,
        text=True,
        timeout=_DEADLINE_S,
    )
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return json.loads(done.stdout)


def _replayed_here() -> list[dict[str, Any]]:
    candidates = [Candidate(name, "", POLICIES[name]()) for name in ("balance", "threshold")]
    trace = synthetic_trace(WorkloadSource(_SCENARIO, _HOURS, _BROKERS))
    rows = [replay_task(task).row for task in tasks_of([trace], candidates, range(_SEEDS))]
    baseline = Named("balance", "")
    verdict = CandidateVerdict.of(Replays(rows, []), baseline)
    replays: list[dict[str, Any]] = to_row(verdict)["replays"]
    return replays


def main() -> None:
    """Try it and print."""
    # A signal to this process also ends the processes that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = Path(tempfile.mkdtemp())
    try:
        found = spark_cluster(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.write(json.dumps(found) + "\n")
    sys.exit(0 if found["is_right"] else 1)


if __name__ == "__main__":
    main()
