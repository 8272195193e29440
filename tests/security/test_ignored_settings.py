"""A key of Pulsar that restricts access never lets a daemon start unrestricted in silence."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.daemon.lifecycle import start
from broker_ctl.errors import StartError
from broker_ctl.http_client import HttpClient
from tests.support.clusters.fake_services import serving_brokers
from tests.support.http.web_server import free_port
from tests.support.time.waiting import PATIENCE_S

Write = Callable[[str], Path]

SECRET = "a-secret-of-nobody"
STORE = "metadataStoreUrl=zk:localhost:2181\n"
# What an operator of Pulsar relies on.
RESTRICTED = {
    "authorizationProvider": "org.example.MultiRolesTokenAuthorizationProvider",
    "webServiceTlsCiphers": "TLS_AES_256_GCM_SHA384",
    "tlsTrustStore": "/etc/pulsar/trust.jks",
    "brokerClientTlsTrustStore": "/etc/pulsar/trust.jks",
    "webServiceTlsProtocols": "TLSv1.3",
    "httpMaxRequestSize": "65536",
    "maxNamespacesPerTenant": "10",
    "maxTenants": "10",
}
# With these values Pulsar restricts nothing either.
PERMISSIVE = {
    **dict.fromkeys(RESTRICTED, ""),
    "authorizationProvider": "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider",
    "httpMaxRequestSize": "-1",
    "maxNamespacesPerTenant": "0",
    "maxTenants": "0",
}
# What Pulsar's own file says of security, but for what is empty there.
SHIPPED = {
    "authenticateMetricsEndpoint": "false",
    "authenticateOriginalAuthData": "false",
    "sslFactoryPluginParams": "60",
    "authorizationAllowWildcardsMatching": "false",
    "authorizationEnabled": "false",
    "authorizationProvider": "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider",
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerMaxConnections": "0",
    "brokerMaxConnectionsPerIp": "0",
    "disableHttpDebugMethods": "false",
    "httpMaxRequestSize": "-1",
    "maxNamespacesPerTenant": "0",
    "maxTenants": "0",
    "httpRequestsLimitEnabled": "false",
    "httpRequestsMaxPerSecond": "100.0",
    "tlsAllowInsecureConnection": "false",
    "tlsHostnameVerificationEnabled": "false",
    "tlsKeyStoreType": "JKS",
    "webServiceTrustXForwardedFor": "false",
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        file = tmp_path / "broker.conf"
        file.write_text(STORE + text, encoding="ascii")
        return file

    return write


@pytest.fixture(autouse=True)
def _root_logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A start that is not refused runs no daemon, and leaves the process's log as it was."""
    monkeypatch.setattr(start, "_run", AsyncMock(return_value=0))
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def lines(values: dict[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["config", "check", *map(str, arguments)])


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


def warnings(started: Result) -> list[str]:
    assert started.exit_code == 0, started.output
    return [line for line in started.output.splitlines() if " WARNING " in line]


@pytest.mark.parametrize("key", RESTRICTED)
def test_a_restriction_that_would_be_ignored_ends_the_start(key: str, write: Write) -> None:
    file = write(f"{key}={RESTRICTED[key]}\n")
    checked, ran = check(file), run("-c", file)
    assert (checked.exit_code, ran.exit_code) == (1, 1)
    for said in (checked.output, ran.output):
        assert f"{file}:2: {key}: " in said
        assert "acceptIgnoredSecuritySettings" in said
        # The value of a key of Pulsar's can be a secret.
        assert f"{key}={RESTRICTED[key]}" not in said


def test_all_restrictions_are_named_at_once(write: Write) -> None:
    file = write(lines(RESTRICTED))
    report = json.loads(check(file, "--output", "json").output)
    assert [problem["key"] for problem in report["problems"]] == list(RESTRICTED)
    with pytest.raises(StartError) as refused:
        start.run(file, [])
    assert len(str(refused.value).splitlines()) == len(RESTRICTED)


def test_a_switch_against_verification_ends_the_start(write: Write) -> None:
    file = write("tlsAllowInsecureConnection=true\n")
    for said in (check(file), run("-c", file)):
        assert said.exit_code == 1
        assert f"{file}:2: tlsAllowInsecureConnection=true: " in said.output
        assert "certificates are always verified" in said.output
    assert check(write("tlsAllowInsecureConnection=false\n")).exit_code == 0


def test_permissive_values_restrict_nothing_and_let_a_daemon_start(write: Write) -> None:
    file = write(lines(PERMISSIVE))
    assert check(file).exit_code == 0
    assert run("-c", file).exit_code == 0


def test_the_last_source_of_a_key_counts(write: Write) -> None:
    file = write("httpMaxRequestSize=65536\n")
    assert check(file, "--set", "httpMaxRequestSize=-1").exit_code == 0
    file = write("httpMaxRequestSize=-1\n")
    assert check(file, "--set", "httpMaxRequestSize=65536").exit_code == 1


def test_what_is_accepted_by_name_starts_with_a_warning_and_nothing_else_does(
    write: Write,
) -> None:
    file = write(
        "httpMaxRequestSize=65536\nwebServiceTlsCiphers=p\nacceptIgnoredSecuritySettings=httpMaxRequestSize\n"
    )
    refused = check(file)
    assert refused.exit_code == 1
    assert "webServiceTlsCiphers" in refused.output
    assert "httpMaxRequestSize: " not in refused.output
    both = ("--set", "acceptIgnoredSecuritySettings=httpMaxRequestSize, webServiceTlsCiphers")
    assert check(file, *both).exit_code == 0
    (warned,) = warnings(run("-c", file, *both))
    for place in (f"httpMaxRequestSize ({file}:2)", f"webServiceTlsCiphers ({file}:3)"):
        assert place in warned


def test_keys_that_tune_security_are_warned_of_at_the_start(write: Write) -> None:
    tuning = {"sslFactoryPluginParams": "60", "tlsKeyStorePassword": "hunter2"}
    file = write(lines({**tuning, "tlsProvider": "", "catalogFile": "x"}))
    (warned,) = warnings(run("-c", file))
    for number, key in enumerate(tuning, start=2):
        assert f"{key} ({file}:{number})" in warned
    for absent in ("hunter2", "tlsProvider", "catalogFile"):
        assert absent not in warned


def test_a_broker_conf_as_pulsar_ships_it_starts(write: Write) -> None:
    file = write(lines(SHIPPED))
    assert check(file).exit_code == 0
    (warned,) = warnings(run("-c", file))
    assert "tlsKeyStoreType" in warned
    assert not any(f"{key} (" in warned for key in RESTRICTED)


async def test_the_method_that_repeats_a_request_is_refused() -> None:
    """``disableHttpDebugMethods=true`` asks for nothing more."""
    async with (
        serving_brokers([free_port()]) as [broker],
        HttpClient(token=SECRET, timeout_s=PATIENCE_S, max_body_bytes=4096) as http,
    ):
        reply = await http.request("TRACE", f"{broker.url}/livez")
    assert reply.status == 405
    assert SECRET.encode() not in reply.body
