"""The cluster that a page is about: zk1:2181, and daemons at broker-1:8080 to broker-3:8080."""

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.lab.embedded.daemons import BROKER_CTL
from tests.support.time.waiting import eventually

_ZOOKEEPERS: Final = ("zk1", "zk2", "zk3")
_MOST: Final = 4
_ADDRESSES: Final = ("127.0.0.1", *(f"127.0.1.{number}" for number in range(2, _MOST + 1)))
HOSTS: Final = "".join(
    (
        *(f"{address} broker-{number}\n" for number, address in enumerate(_ADDRESSES, start=1)),
        *(f"127.0.0.1 {name}\n" for name in _ZOOKEEPERS),
    )
)
NAMESPACE: Final = "shop/orders"
_TENANT: Final = ("tenants", "create", "shop", "--yes")
_RING: Final = ("namespaces", "create", NAMESPACE, "--bundles", "4", "--yes")
TYPED: Final = (
    "broker-ctl zookeeper",
    "broker-ctl run",
    *(f"broker-ctl {' '.join(words)}" for words in (_TENANT, _RING)),
)
# A bound on what hangs: on a busy machine a start takes many times its usual seconds.
_READY_S: Final = 300.0
_POLL_S: Final = 0.1
_TOPICS: Final = 64
_TRACE: Final = "minute,topic,msg_rate_in,msg_rate_out,bytes_in,bytes_out"


@contextmanager
def cluster(directory: Path, count: int, settings: Sequence[str], programs: Path) -> Iterator[None]:
    """Servers and daemons for as long as a page is read, with a namespace that is looked up.

    Args:
        directory: for configurations, logs and data.
        settings: further ones of each daemon, ``key=value``.
        programs: where the `ssh` goes that reaches the hosts of the brokers.
    """
    names = [f"broker-{number}" for number in range(1, count + 1)]
    with ExitStack() as running:
        running.enter_context(_process(directory, "zookeeper", "zookeeper", "--dir", "zookeeper"))
        _wait((directory / "zookeeper" / "broker.secret").exists, directory, "zookeeper")
        _write_trace(directory / "topics.csv")
        for number, name in enumerate(names, start=1):
            own = _settings(directory, number, settings)
            configuration = directory / f"{name}.conf"
            configuration.write_text("".join(f"{key}={value}\n" for key, value in own.items()))
            running.enter_context(_process(directory, name, "run", "-c", str(configuration)))
        for name in names:
            _wait(partial(_is_ready, name), directory, name)
        _write_ssh(programs / "ssh", directory)
        admin = own.get("adminServicePort", "8080")
        for words in (_TENANT, _RING):
            url = f"http://broker-1:{admin}"
            subprocess.run((*BROKER_CTL, *words, "--url", url), check=True, capture_output=True)
        for topic in range(_TOPICS):
            _wait(partial(_is_looked_up, topic), directory, "broker-1")
        # A reader's cluster has been up for a while: its leader knows what each broker can take.
        _wait(partial(_is_reported, f"http://broker-1:{admin}", count), directory, "broker-1")
        yield


def _settings(directory: Path, number: int, further: Sequence[str]) -> dict[str, str]:
    name = f"broker-{number}"
    return {
        **SETTINGS,
        "metadataStoreUrl": "zk:127.0.0.1:2181",
        "zookeeperSaslDigestFile": str(directory / "zookeeper" / "broker.secret"),
        "simulatedWorkload": str(directory / "topics.csv"),
        "loadBalancerAutoBundleSplitEnabled": "false",
        "bindAddress": _ADDRESSES[number - 1],
        "advertisedAddress": name,
        "webServicePort": "8080",
        "brokerServicePort": "6650",
        "lookupServicePort": "6652",
        "brokerId": str(number),
        "loadHistoryDirectory": str(directory / "history"),
        **{
            key: value.format(directory=directory, name=name)
            for key, value in (setting.split("=", 1) for setting in further)
        },
    }


def _write_trace(trace: Path) -> None:
    rows = (f"0,persistent://{NAMESPACE}/{n},100,100,100000,100000" for n in range(_TOPICS))
    trace.write_text("\n".join((_TRACE, *rows)) + "\n")


def _write_ssh(program: Path, directory: Path) -> None:
    """`ssh HOST sudo systemctl restart ...` restarts the daemon of that host."""
    run = " ".join((*BROKER_CTL, "run", "-c"))
    program.write_text(
        "#!/bin/sh\n"
        f"cd {directory}\n"
        # Who is dead has no program any more, whether or not its parent has noticed.
        "kill $(cat $1.pid) && while [ -e /proc/$(cat $1.pid)/exe ]; do sleep 0.1; done\n"
        f"{run} $1.conf >> $1.log 2>&1 < /dev/null &\n"
        "echo $! > $1.pid\n"
    )
    program.chmod(0o755)


@contextmanager
def _process(directory: Path, name: str, *arguments: str) -> Iterator[None]:
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen((*BROKER_CTL, *arguments), cwd=directory, stdout=log, stderr=log)
    (directory / f"{name}.pid").write_text(str(process.pid))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _is_ready(name: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{name}:8080/readyz", timeout=_READY_S):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _is_looked_up(topic: int) -> bool:
    path = f"lookup/v2/topic/persistent/{NAMESPACE}/{topic}"
    try:
        with urllib.request.urlopen(f"http://broker-1:8080/{path}", timeout=_READY_S):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _is_reported(url: str, count: int) -> bool:
    command = (*BROKER_CTL, "advise", "size", "--url", url, "--output", "json")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode == 0 and json.loads(done.stdout)["brokers"] == count


def _wait(is_there: Callable[[], bool], directory: Path, name: str) -> None:
    try:
        asyncio.run(eventually(is_there, _READY_S, poll_s=_POLL_S))
    except AssertionError:
        sys.exit(f"{name} is not ready:\n{(directory / f'{name}.log').read_text()[-2000:]}")
