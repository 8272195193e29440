"""Attacks on every file that an option or a setting names, and on every secret on its way."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

import broker_ctl
from broker_ctl.cli.main import main
from tests.security.surface.test_ports import OF_BROKER_PROCESS
from tests.security.test_cleartext import (
    ALLOWED,
    AUTHENTICATED,
    LOCAL,
    OFF_LOOPBACK,
    TLS_PORT,
    check,
)
from tests.security.test_secret_files import OPTIONS, SECRET
from tests.support.security.authority import issue
from tests.support.security.surface import PORT_KEYS

PACKAGE: Final = Path(broker_ctl.__file__).parent
ZOOKEEPER: Final = ("brokers", "monitor", "--zookeeper", "127.0.0.1:9", "--once", "--zookeeper-tls")
STATUS: Final = ("status", "--url", "https://127.0.0.1:9")
# Options that name a file that decides who is believed, with a verb; they are shared by all verbs.
TRUSTED: Final[dict[str, Sequence[str]]] = {
    **OPTIONS,
    "--tls-ca": STATUS,
    "--tls-cert": STATUS,
    "--zookeeper-tls-ca": ZOOKEEPER,
    "--zookeeper-tls-cert": ZOOKEEPER,
}
# Options and arguments that name another file, and why it decides nothing of that kind.
OTHERS: Final = {
    "--broker-conf": "settings, read for a comparison",
    "--config": "settings, judged by test_trusted_files.py",
    "-c": "settings, judged by test_trusted_files.py",
    "--dir": "written",
    "--events": "input of a simulation",
    "--export-trace": "written",
    "--from": "a plan, which a leader judges",
    "--history": "written",
    "--json": "written",
    "--kubernetes-credentials": "a directory, whose files are judged as they are read",
    "--log": "written",
    "--moves": "input of a simulation",
    "--out": "written",
    "--output-private-key": "written",
    "--output-public-key": "written",
    "--plot": "written",
    "--output-token": "written",
    "--plan-to": "written",
    "--root": "written",
    "--to": "written",
    "--trace": "input of a simulation",
    "-f": "read by verbs that send nothing",
    "-o": "written",
    "directory": "written",
    "file": "read by verbs that send nothing, or a key set that they write",
    "files": "audit logs, which are linked by hashes",
    "history": "rows of a history",
}
CLEAR_PORTS: Final = sorted(
    key for key in set(PORT_KEYS) - OF_BROKER_PROCESS if not key.endswith("Tls")
)
# Where an HTTP client is made: each has addresses of settings, or of `PeerAddresses`.
CLIENTS: Final = {
    "daemon/doctor/ensemble.py": "the ZooKeeper servers of the settings, without a secret",
    "attach/attached.py": "pulsarAdminUrl, and the hosts that are allowed beside it",
    "attach/state.py": "the API server of this cluster's pods",
    "daemon/wiring/broker.py": "registered brokers, by PeerAddresses",
    "daemon/wiring/dataplanes.py": "dataPlaneUrl",
    "daemon/wiring/tokens.py": "issuers of the settings, without a secret",
    "lab/conformance/runner.py": "the operator's argument",
}


def parameters() -> Iterator[tuple[str, click.Parameter]]:
    """Of every verb."""

    def below(command: click.Command, context: click.Context) -> Iterator[click.Command]:
        if not isinstance(command, click.Group):
            yield command
            return
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from below(found, context)

    for command in below(main, click.Context(main)):
        for parameter in command.params:
            yield parameter.opts[0], parameter


def test_each_option_that_names_a_file_says_whether_it_decides_who_is_believed() -> None:
    named = {name for name, each in parameters() if isinstance(each.type, click.Path)}
    assert named - OTHERS.keys() == TRUSTED.keys()
    assert OTHERS.keys() <= named


@pytest.mark.parametrize("option", sorted(TRUSTED))
def test_an_option_takes_no_file_that_others_could_have_written(
    option: str, tmp_path: Path
) -> None:
    issued = issue(tmp_path / "issued")
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET, encoding="ascii")
    files = [secret]
    if option.endswith("-ca"):
        files = [issued.authority]
    elif option.endswith("-cert"):
        files = [issued.certificate, issued.key]
    for file in files:
        kept = file.stat().st_mode
        file.chmod(0o666)
        result = CliRunner().invoke(main, [*TRUSTED[option], option, *map(str, files)])
        file.chmod(kept)
        assert result.exit_code != 0
        assert f"{file}: " in result.output
        assert "chmod go-w" in result.output


@pytest.mark.parametrize("key", CLEAR_PORTS)
def test_no_token_crosses_a_network_in_the_clear_at_any_port(key: str, tmp_path: Path) -> None:
    own = "bindAddress=127.0.0.1" if key.startswith(("admin", "metrics")) else OFF_LOOPBACK
    addresses = {"adminServicePort": "adminBindAddress", "metricsServicePort": "metricsBindAddress"}
    overrides = [LOCAL, own, *AUTHENTICATED, "authenticateMetricsEndpoint=true", f"{key}=8099"]
    if key in addresses:
        overrides.append(f"{addresses[key]}=0.0.0.0")
    if key == "lookupServicePort":
        overrides += ["webServicePort=", *TLS_PORT]
    refused = check(tmp_path, *overrides)
    assert refused.exit_code == 1
    assert f" {key}=" in refused.output
    assert "in the clear" in refused.output
    assert "allowCleartextCredentials" in refused.output
    assert key not in check(tmp_path, *overrides, ALLOWED).output


def clients() -> Iterator[str]:
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name("HttpClient") | ast.Attribute(attr="ClientSession")):
                    yield name


def test_each_client_of_a_daemon_is_known_by_where_it_sends() -> None:
    found = {name for name in clients() if not name.startswith("cli/")}
    assert found == CLIENTS.keys() | {"http_client.py"}
