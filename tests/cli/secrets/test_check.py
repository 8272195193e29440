"""``broker-ctl secrets check``: one fault each, and what is said of it."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from broker_ctl.cli.main import main
from broker_ctl.clock import SystemClock
from tests.support.security.replaced_files import replace

HOST = "127.0.0.1"
TOKEN = "kG5fEw8ZbQ2yT7uV4hS0nC9pJ3xL6mRd"
GOOD, WRONG, WARNED = 0, 1, 3


def now() -> dt.datetime:
    return dt.datetime.fromtimestamp(SystemClock().wall_ms() / 1000, dt.UTC)


class Files:
    """A configuration that is in order, whose files a test replaces."""

    def __init__(self, directory: Path) -> None:
        self.authority = trustme.CA()
        self.ca, self.certificate = directory / "ca.pem", directory / "cert.pem"
        self.key, self.tokens = directory / "key.pem", directory / "tokens"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.install(self.authority, HOST)
        replace(self.tokens, f"admin:{TOKEN}\n".encode())
        self.settings = [
            "metadataStoreUrl=zk:localhost:2181",
            f"advertisedAddress={HOST}",
            "webServicePortTls=8443",
            "authenticationEnabled=true",
            "superUserRoles=admin",
            f"tokenSecretKeyFile={self.tokens}",
            f"tlsCertificateFilePath={self.certificate}",
            f"tlsKeyFilePath={self.key}",
            f"tlsTrustCertsFilePath={self.ca}",
            f"brokerClientTrustCertsFilePath={self.ca}",
            f"brokerClientCertificateFilePath={self.certificate}",
            f"brokerClientKeyFilePath={self.key}",
        ]

    def install(self, authority: trustme.CA, host: str, days: float = 300) -> None:
        ends = now() + dt.timedelta(days=days)
        begins = min(ends, now()) - dt.timedelta(days=1)
        leaf = authority.issue_cert(host, not_before=begins, not_after=ends)
        replace(self.certificate, b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        replace(self.key, leaf.private_key_pem.bytes())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def check(files: Files, *options: str) -> Result:
    given = [part for each in files.settings for part in ("--set", each)]
    return CliRunner().invoke(main, ["secrets", "check", *given, *options])


def checked(files: Files, code: int) -> dict[str, Any]:
    """What is said of each setting."""
    result = check(files, "--output", "json")
    assert result.exit_code == code, result.output
    said = json.loads(result.stdout)
    assert said["state"] == {GOOD: "ok", WRONG: "error", WARNED: "warning"}[code]
    return {row["setting"]: row for row in said["files"]}


def test_files_in_order_are_shown_with_mode_and_days(files: Files) -> None:
    rows = checked(files, GOOD)
    assert len(rows) == 7
    assert rows["tlsKeyFilePath"]["mode"] == "0600"
    assert 299 < rows["tlsCertificateFilePath"]["days_left"] <= 300
    assert rows["tokenSecretKeyFile"]["days_left"] is None
    shown = check(files)
    assert shown.exit_code == GOOD
    assert TOKEN not in shown.output


def test_a_key_of_another_certificate_is_an_error(files: Files) -> None:
    replace(files.key, trustme.CA().issue_cert(HOST).private_key_pem.bytes())
    rows = checked(files, WRONG)
    assert "is not the key of" in rows["tlsKeyFilePath"]["errors"][0]
    assert check(files).stderr.startswith("error: tlsKeyFilePath=")


def test_an_authority_that_has_not_issued_it_is_an_error(files: Files) -> None:
    files.install(trustme.CA(), HOST)
    rows = checked(files, WRONG)
    (said,) = rows["tlsCertificateFilePath"]["errors"]
    assert f"is not accepted for {HOST} by brokerClientTrustCertsFilePath" in said
    assert "is not accepted by tls" in rows["brokerClientCertificateFilePath"]["errors"][0]


def test_a_name_that_is_not_advertised_is_an_error(files: Files) -> None:
    files.install(files.authority, "10.0.0.1")
    (said,) = checked(files, WRONG)["tlsCertificateFilePath"]["errors"]
    assert f"is not accepted for {HOST}" in said
    assert "IP address mismatch" in said


@pytest.mark.parametrize(
    ("days", "code", "kind", "text"),
    [(-2, WRONG, "errors", "has ended 2 days ago"), (9.4, WARNED, "warnings", "ends in 9 days")],
)
def test_an_end_that_is_near_or_over_is_reported(
    files: Files, days: float, code: int, kind: str, text: str
) -> None:
    files.install(files.authority, HOST, days)
    assert text in checked(files, code)["tlsCertificateFilePath"][kind]
    assert check(files, "--warn-days", "5").exit_code == (GOOD if code == WARNED else WRONG)


def test_modes_of_secrets_count_and_those_of_certificates_do_not(files: Files) -> None:
    files.certificate.chmod(0o644)
    checked(files, GOOD)
    files.tokens.chmod(0o644)
    assert "can read this secret" in checked(files, WARNED)["tokenSecretKeyFile"]["warnings"][0]
    files.tokens.chmod(0o666)
    assert (
        "other users of this machine can write it"
        in checked(files, WRONG)["tokenSecretKeyFile"]["errors"][0]
    )


def test_a_missing_file_is_an_error(files: Files) -> None:
    files.ca.unlink()
    rows = checked(files, WRONG)
    assert rows["tlsTrustCertsFilePath"]["errors"] == ["No such file or directory"]
    assert rows["tlsTrustCertsFilePath"]["mode"] == ""


def test_weak_tokens_and_keys_are_reported(files: Files) -> None:
    replace(files.tokens, b"admin:0123456789abcdef\n")
    (said,) = checked(files, WARNED)["tokenSecretKeyFile"]["warnings"]
    assert said.startswith("line 1: the token of admin has fewer than 32")
    assert "0123456789abcdef" not in said
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    name = x509.Name([])
    begins = now()
    made = (
        x509.CertificateBuilder(
            name, name, weak.public_key(), 7, begins, begins + dt.timedelta(days=99)
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("h")]), critical=True)
        .sign(weak, hashes.SHA256())
    )
    replace(files.certificate, made.public_bytes(Encoding.PEM))
    replace(files.key, weak.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    said = checked(files, WRONG)["tlsCertificateFilePath"]["errors"][0]
    assert "its RSA key has 1024 bits" in said


def test_a_file_that_holds_something_else_is_an_error(files: Files) -> None:
    replace(files.tokens, b"nobody\n")
    assert "line 1" in checked(files, WRONG)["tokenSecretKeyFile"]["errors"][0]


def test_a_configuration_without_files_is_in_order() -> None:
    settings = ("--set", "metadataStoreUrl=zk:localhost:2181")
    result = CliRunner().invoke(main, ["secrets", "check", *settings, "--output", "json"])
    assert result.exit_code == GOOD
    assert json.loads(result.stdout) == {"state": "ok", "files": []}


def test_the_number_of_a_replica_broker_has_to_be_named(files: Files) -> None:
    replicating = ("--set", "brokerId=7", "--set", "simulatedReplicationTlsEnabled=true")
    result = check(files, *replicating)
    assert result.exit_code == WRONG
    assert "the URI spiffe://standalone/replica-broker/7 is missing" in result.stderr


def test_a_broken_trust_file_of_zookeeper_is_named(files: Files, tmp_path: Path) -> None:
    broken = tmp_path / "zookeeper-ca.pem"
    replace(broken, b"nothing")
    files.settings += ["zookeeperTlsEnabled=true", f"zookeeperTlsCaFile={broken}"]
    assert "TLS to ZooKeeper" in checked(files, WRONG)["zookeeperTlsCaFile"]["errors"][0]
