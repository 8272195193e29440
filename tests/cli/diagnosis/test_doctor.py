"""``broker-ctl doctor``: one fault each, at a real server, and what is said of it."""

import ctypes
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import pytest
import trustme
from click.testing import CliRunner, Result
from kazoo.client import KazooClient

from broker_ctl.broker.load.host_usage import HostSampler
from broker_ctl.cli.main import main
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.daemon.doctor import ensemble, machine
from broker_ctl.settings.effect import fingerprints, is_of_cluster
from broker_ctl.settings.sources import load
from broker_ctl.store import paths
from broker_ctl.store.records.broker_ctl import Registration
from tests.support.http.web_server import free_port
from tests.support.zookeeper.ensemble import SharedEnsemble

GOOD, WRONG, WARNED = 0, 1, 3
TICK = "zookeeperTickTimeMillis"


class Patient:
    """What doctor says of a server and settings."""

    def __init__(self, url: str) -> None:
        self._settings = [
            f"metadataStoreUrl=zk:{url}",
            f"{TICK}=500",
            f"webServicePort={free_port()}",
        ]

    def run(self, *settings: str, options: tuple[str, ...] = ()) -> Result:
        words = [word for each in (*self._settings, *settings) for word in ("--set", each)]
        return CliRunner().invoke(main, ["doctor", *words, *options])

    def rows(self, *settings: str, code: int) -> list[dict[str, Any]]:
        result = self.run(*settings, options=("--timeout", "2", "--output", "json"))
        assert result.exit_code == code, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
        for row in found:
            assert bool(row["advice"]) >= (row["state"] in {"warning", "error"}), row
        return found

    def row(self, check: str, *settings: str, code: int, subject: str = "") -> dict[str, Any]:
        rows = self.rows(*settings, code=code)
        return next(row for row in rows if row["check"] == check and subject in row["subject"])


@pytest.fixture
def patient(zookeeper: SharedEnsemble, chroot: str) -> Patient:
    return Patient(f"{zookeeper.connect_string}{chroot}")


def test_a_healthy_server_is_measured_and_only_its_loneliness_and_openness_are_warned_of(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_adjtimex", lambda: 0)
    rows = patient.rows(code=WARNED)
    warned = {(row["check"], row["found"]) for row in rows if row["state"] != "ok"}
    assert warned == {
        ("zookeeper", "one server: its failure stops the brokers"),
        ("access control", "nodes are open to every client of these servers"),
        ("clock", "no broker has reported yet"),
        ("settings", "no live broker reports its own"),
    }
    (latency,) = [row["found"] for row in rows if row["check"] == "latency"]
    assert latency.startswith("20 syncs: ")
    checks = ["configuration", "certificates and secrets", "clock", "limits", "ports", "zookeeper"]
    seen = list(dict.fromkeys(row["check"] for row in rows))
    assert [check for check in seen if check in checks] == checks


def test_the_table_says_what_to_do(patient: Patient) -> None:
    result = patient.run()
    assert result.exit_code == WARNED
    assert "three servers, or five" in result.stdout
    assert "docs/how-to/secure-a-cluster.md" in result.stdout


# The tick.


@pytest.mark.parametrize(
    ("tick_ms", "state", "code"),
    [(500, "ok", WARNED), (200, "error", WRONG), (2000, "warning", WARNED)],
)
def test_the_tick_is_learnt_from_what_a_session_is_granted(
    patient: Patient, tick_ms: int, state: str, code: int
) -> None:
    row = patient.row("tickTime", f"{TICK}={tick_ms}", code=code)
    assert row["state"] == state
    assert row["found"] == f"sessions get at least 1000 ms, {2 * tick_ms} ms are expected"
    if state != "ok":
        assert row["advice"].startswith(f"{TICK}=500 on all brokers")


@contextmanager
def answering(*answers: tuple[bytes, bytes]) -> Iterator[int]:
    """A server that answers what begins with these bytes, then closes."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            asked = self.connection.recv(1024)
            for begin, answer in answers:
                if asked.startswith(begin):
                    self.wfile.write(answer)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, name="answers")
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


SRVR = b"Zookeeper version: 3.8.4-x\nZxid: 0x1\nMode: leader\n"
REFUSED = b"conf is not executed because it is not in the whitelist.\n"


def test_the_tick_is_asked_of_the_command_conf() -> None:
    with answering((b"srvr", SRVR), (b"conf", b"clientPort=1\ntickTime=3000\n")) as port:
        row = Patient(f"127.0.0.1:{port}").row("tickTime", code=WRONG)
    assert row["found"] == f"3000 ms, says the command conf; {TICK}=500"


def test_the_tick_is_asked_of_the_admin_server(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"tick_time": 500}'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    with (
        answering((b"srvr", SRVR), (b"conf", REFUSED)) as port,
        answering((b"GET /commands/configuration", head + body)) as admin,
    ):
        monkeypatch.setattr(ensemble, "_ADMIN_PORT", admin)
        row = Patient(f"127.0.0.1:{port}").row("tickTime", code=WRONG)
    assert row["found"] == f"500 ms, says the admin server; {TICK}=500"


# Servers.


def test_servers_that_are_away_are_an_error() -> None:
    rows = Patient(f"127.0.0.1:{free_port()}").rows(code=WRONG)
    assert "no leader" in rows[-1]["found"]
    assert "broker-ctl zookeeper status" in rows[-1]["advice"]


def test_a_server_without_a_session_is_an_error() -> None:
    with answering((b"srvr", SRVR), (b"conf", b"tickTime=500\n")) as port:
        patient = Patient(f"127.0.0.1:{port}")
        result = patient.run(options=("--timeout", "0.3", "--output", "json"))
    last = json.loads(result.stdout)["findings"][-1]
    assert (result.exit_code, last["state"]) == (WRONG, "error")
    assert "firewall" in last["advice"]


def test_a_node_from_the_future_shows_a_clock_that_is_behind(
    patient: Patient,
    zookeeper: SharedEnsemble,
    chroot: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = KazooClient(f"{zookeeper.connect_string}{chroot}")
    client.start()
    try:
        client.create("/loadbalance/brokers/b:1", b"{}", makepath=True)
    finally:
        client.stop()
    assert patient.row("clock", code=WARNED, subject="servers")["state"] == "ok"
    wall_ms = machine_clock_ms()
    monkeypatch.setattr("broker_ctl.clock.SystemClock.wall_ms", lambda _: wall_ms - 5_000)
    row = patient.row("clock", code=WARNED, subject="servers")
    assert (row["state"], row["found"].endswith("s behind a ZooKeeper server, or more")) == (
        "warning",
        True,
    )


def test_settings_of_which_a_live_broker_has_another_value_are_named(
    patient: Patient, zookeeper: SharedEnsemble, chroot: str
) -> None:
    grace, mine = "loadBalancerSheddingGracePeriodMinutes", "loadBalancerPlannerReturnMinutes"
    reported = {
        "b:1": [f"{grace}=5", "webServicePort=18080", "tokenSecretKey=data:;base64,c2VjcmV0"],
        "b:2": [f"{TICK}=500"],
        "b:3": None,
    }
    client = KazooClient(f"{zookeeper.connect_string}{chroot}")
    client.start()
    try:
        for broker, texts in reported.items():
            values = None if texts is None else fingerprints(load(None, {}, texts))
            urls = BrokerUrls(broker, f"http://{broker}")
            node = Registration("n", 30_000, 1, urls, settings=values).encode()
            client.create(paths.registration(broker), node, makepath=True)
    finally:
        client.stop()
    rows = patient.rows(f"{mine}=7", code=WARNED)
    found = {row["subject"]: row["found"] for row in rows if row["check"] == "settings"}
    assert found == {
        grace: "b:1 has another value than here",
        mine: "b:1, b:2 have another value than here",
        TICK: "b:1 has another value than here",
    }


def test_no_secret_file_or_address_leaves_a_fingerprint() -> None:
    private = {"tokenSecretKey", "tokenSecretKeyFile", "superUserRoles", "advertisedAddress"}
    assert not [key for key in private if is_of_cluster(key)]
    assert is_of_cluster("loadBalancerSheddingGracePeriodMinutes")
    assert fingerprints(load(None, {}, [])) == {}


def machine_clock_ms() -> int:
    from broker_ctl.clock import SystemClock

    return SystemClock().wall_ms()


def test_nodes_that_are_open_are_found(patient: Patient, tmp_path: Path) -> None:
    secret = tmp_path / "digest"
    secret.write_text("broker:secret-of-the-broker\n", encoding="utf-8")
    secret.chmod(0o600)
    row = patient.row("access control", f"zookeeperAuthDigestFile={secret}", code=WARNED)
    assert row["state"] == "warning"
    assert row["found"] == "1 of 1 nodes are open, such as /"
    assert row["advice"] == "broker-ctl zookeeper secure"


# The machine.


def test_a_clock_that_nobody_sets_is_warned_of(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_adjtimex", lambda: 5)
    row = patient.row("clock", code=WARNED)
    assert (row["state"], "NTP client" in row["advice"]) == ("warning", True)


def test_the_kernel_is_asked_for_its_clock_and_changes_nothing() -> None:
    assert machine._adjtimex() in {*range(6), -1}
    assert ctypes.get_errno() in {0, 1}


def test_bandwidth_without_a_limit_is_warned_of_where_the_host_is_measured(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HostSampler, "_is_counted", lambda *_: False)
    row = patient.row("limits", "hostUsageSource=host", code=WARNED, subject="network")
    assert "no network interface is counted" in row["found"]
    assert "loadBalancerOverrideBrokerNics" in row["advice"]


def test_few_open_files_are_warned_of(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 4096))
    row = patient.row("limits", code=WARNED, subject="open files")
    assert row["found"].startswith("256 in this shell (at most 4096)")


def test_a_full_disk_is_warned_of(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = f"loadHistoryDirectory={tmp_path}"
    assert patient.row("disk", setting, code=WARNED)["state"] == "ok"
    monkeypatch.setattr(machine, "_LITTLE_DISK_MIB", 1 << 40)
    assert patient.row("disk", setting, code=WARNED)["state"] == "warning"


def test_a_port_of_another_program_is_an_error_and_of_a_daemon_is_not(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("psutil.Process.cmdline", lambda _: ["/usr/bin/java"])
        row = patient.row("ports", f"webServicePort={port}", code=WRONG)
        assert "in use by " in row["found"]
        monkeypatch.setattr(
            "psutil.Process.cmdline", lambda _: [sys.executable, "/x/broker-ctl", "run"]
        )
        row = patient.row("ports", f"webServicePort={port}", code=WARNED)
        assert row["found"].startswith("in use by broker-ctl (pid ")


def test_an_address_of_another_machine_is_an_error(patient: Patient) -> None:
    row = patient.row("ports", "bindAddress=192.0.2.1", "advertisedAddress=192.0.2.1", code=WRONG)
    assert row["advice"] == "bindAddress has to be an address of this machine"


# Settings and files.


def test_a_wrong_setting_has_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("somethingElse=x\nwebServicePort=no\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["doctor", "-c", str(file), "--offline", "--output", "json"])
    assert result.exit_code == WRONG
    first = json.loads(result.stdout)["findings"][0]
    assert (first["check"], first["subject"]) == ("configuration", "webServicePort")
    assert first["found"].startswith(f"{file}:2: ")


def test_an_unknown_key_is_warned_of(patient: Patient) -> None:
    row = patient.row("configuration", "somethingElse=x", code=WARNED)
    assert (row["subject"], row["state"]) == ("somethingElse", "warning")


def test_a_certificate_near_its_end_is_warned_of(patient: Patient, tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    (tmp_path / "both.pem").chmod(0o600)
    settings = (
        f"webServicePortTls={free_port()}",
        f"tlsCertificateFilePath={tmp_path / 'both.pem'}",
        f"tlsKeyFilePath={tmp_path / 'both.pem'}",
    )
    rows = patient.rows(*settings, code=WARNED)
    files = [row for row in rows if row["check"] == "certificates and secrets"]
    assert "ends" not in "".join(row["found"] for row in files)
    result = patient.run(*settings, options=("--warn-days", "1000000", "--output", "json"))
    rows = json.loads(result.stdout)["findings"]
    (row,) = [row for row in rows if "tlsCertificateFilePath" in row["subject"]]
    assert (row["state"], row["advice"]) == ("warning", "see broker-ctl secrets check")
    assert "ends" in row["found"]


def test_without_connections_zookeeper_is_left_out() -> None:
    result = Patient("127.0.0.1:1").run(options=("--offline", "--output", "json"))
    assert result.exit_code in {GOOD, WARNED}
    assert json.loads(result.stdout)["findings"][-1]["found"] == "left out: --offline"
