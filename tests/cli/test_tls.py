"""Verbs that ask a daemon over TLS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_ctl.api.broker_server import ApiServer
from broker_ctl.api.http.dependencies import ApiRules
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import CLUSTER
from tests.support.http.certificates import TLS, serving_context
from tests.support.http.web_server import free_port

AUTHORITY = str(TLS / "certificate.pem")
OWN = (AUTHORITY, str(TLS / "key.pem"))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    rules = ApiRules(CLUSTER, port_tls=0, tls=serving_context())
    with running([free_port(), free_port()], rules) as served:
        yield served


def url_of(cluster: Cluster) -> tuple[str, str]:
    """The option that says where to ask."""
    assert isinstance(cluster.follower.api, ApiServer)
    return "--url", f"https://127.0.0.1:{cluster.follower.api.port_tls}"


def test_an_authority_is_named_by_an_option_or_in_the_environment(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = cluster.run("status", *url_of(cluster), "--tls-ca", AUTHORITY)
    assert result.exit_code == 0, result.output
    monkeypatch.setenv("BROKER_CTL_TLS_CA", AUTHORITY)
    monkeypatch.setenv("BROKER_CTL_TLS_CERT", ":".join(OWN))
    result = cluster.run("status", *url_of(cluster))
    assert result.exit_code == 0, result.output


def test_an_unknown_authority_is_refused_with_what_to_do(cluster: Cluster) -> None:
    result = cluster.run("status", *url_of(cluster))
    assert result.exit_code == 1
    assert "--tls-ca sets the trusted authorities" in result.stderr
    assert "check that it is running" not in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tls-ca", OWN[1]), f"--tls-ca={OWN[1]}: holds no certificate"),
        (("--tls-cert", *OWN[::-1]), f"--tls-cert={OWN[1]}: holds no certificate"),
        (("--tls-cert", AUTHORITY, AUTHORITY), f"--tls-cert={AUTHORITY}: holds no private key"),
    ],
)
def test_a_file_that_is_something_else_is_named(
    cluster: Cluster, options: tuple[str, ...], message: str
) -> None:
    result = cluster.run("status", *url_of(cluster), *options)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_file_that_is_not_there_is_a_wrong_option(cluster: Cluster, tmp_path: Path) -> None:
    result = cluster.run("status", *url_of(cluster), "--tls-ca", str(tmp_path / "absent"))
    assert result.exit_code == 2
    assert "--tls-ca" in result.stderr
