"""``broker-ctl ca``: what is issued is accepted by TLS, and nothing is lost or taken over."""

import json
import re
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from broker_ctl.cli.main import main
from broker_ctl.security.certificates.authority import holder_of

ID = "127.0.0.1:8080"
URI = "spiffe://prod/broker/127.0.0.1/8080"


def ca(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["ca", *map(str, words)])


def done(*words: str | Path) -> Any:
    result = ca(*words, "--output", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*words: str | Path) -> str:
    result = ca(*words)
    assert result.exit_code in {1, 2}, result.output
    assert "Traceback" not in result.output
    return " ".join(re.sub(r"[│╭╰─╮╯]", " ", result.output).split())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    done("init", "--cluster", "prod", "--ca", tmp_path / "ca")
    return tmp_path / "ca"


def issue(root: Path, out: Path, *words: str | Path) -> Any:
    return done("issue", "--ca", root, "--out", out, *words)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def context(files: Path, protocol: int) -> ssl.SSLContext:
    """As strict as OpenSSL can be."""
    made = ssl.SSLContext(protocol)
    made.load_cert_chain(files / "cert.pem", files / "key.pem")
    made.load_verify_locations(files / "ca.pem")
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    return made


def shake_hands(server: Path, client: Path, host: str = "127.0.0.1") -> None:
    """TLS in memory, with certificates on both sides."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = context(server, ssl.PROTOCOL_TLS_SERVER).wrap_bio(
        to_server, to_client, server_side=True
    )
    calling = context(client, ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
        to_client, to_server, server_hostname=host
    )
    waiting = {serving, calling}
    for _ in range(10):
        for end in [*waiting]:
            try:
                end.do_handshake()
                waiting.discard(end)
            except ssl.SSLWantReadError:
                continue
    assert not waiting


def test_brokers_and_clients_are_accepted_by_each_other(root: Path, tmp_path: Path) -> None:
    broker, other, client = tmp_path / "broker", tmp_path / "other", tmp_path / "client"
    made = issue(root, broker, "--broker", ID, "--host", "b1.example.com", "--broker-number", "7")
    assert made["names"] == ["127.0.0.1", "b1.example.com", URI, "spiffe://prod/replica-broker/7"]
    issue(root, other, "--broker", "[::1]:8080")
    issue(root, client, "--client", "admin")
    shake_hands(broker, client)
    shake_hands(broker, other, "b1.example.com")
    shake_hands(other, broker, "::1")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(broker, client, "b2.example.com")
    # A client's key must not make a server.
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        shake_hands(client, broker)
    subject = read(client / "cert.pem").subject.rfc4514_string()
    assert subject == "CN=admin,O=prod"
    assert read(broker / "cert.pem").subject.rfc4514_string() == "O=prod"


def test_keys_are_for_their_owner_alone(root: Path, tmp_path: Path) -> None:
    issue(root, tmp_path / "b", "--broker", ID)
    assert [mode(root / "ca.key"), mode(tmp_path / "b" / "key.pem")] == [0o600, 0o600]
    assert [mode(root), mode(tmp_path / "b")] == [0o700, 0o700]
    assert [mode(root / "ca.pem"), mode(tmp_path / "b" / "cert.pem")] == [0o644, 0o644]


def test_a_dry_run_writes_nothing(root: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert done("init", "--cluster", "x", "--ca", new, "--dry-run")["result"] == "dry_run"
    assert issue(root, new, "--client", "admin", "--dry-run")["result"] == "dry_run"
    assert not new.exists()
    issue(root, tmp_path / "b", "--broker", ID)
    before = (tmp_path / "b" / "cert.pem").read_bytes()
    done("renew", "--ca", root, tmp_path / "b" / "cert.pem", "--dry-run")
    assert (tmp_path / "b" / "cert.pem").read_bytes() == before


def test_nothing_is_replaced_without_force(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "b"
    issue(root, out, "--broker", ID)
    before = {path: path.read_bytes() for path in (*root.iterdir(), *out.iterdir())}
    for words in (
        ("init", "--cluster", "prod", "--ca", root),
        ("issue", "--ca", root, "--broker", ID, "--out", out),
        ("renew", "--ca", root, out / "cert.pem"),
    ):
        assert "--force replaces it" in refused(*words)
    assert {path: path.read_bytes() for path in before} == before
    issue(root, out, "--broker", ID, "--force")
    assert (out / "key.pem").read_bytes() != before[out / "key.pem"]
    # A planted link is not followed.
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "key.pem").symlink_to(tmp_path / "elsewhere")
    assert "exists" in refused("issue", "--ca", root, "--client", "a", "--out", planted)
    issue(root, planted, "--client", "a", "--force")
    assert not (tmp_path / "elsewhere").exists()
    assert {path.name for path in planted.iterdir()} == {"key.pem", "cert.pem", "ca.pem"}


def test_a_renewed_certificate_keeps_its_names_and_its_key(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "b"
    issue(root, out, "--broker", ID, "--days", "1")
    old, key = read(out / "cert.pem"), (out / "key.pem").read_bytes()
    made = done("renew", "--ca", root, out / "cert.pem", "--force", "--days", "60")
    new = read(out / "cert.pem")
    assert made["names"] == ["127.0.0.1", URI]
    assert (new.subject, new.public_key()) == (old.subject, old.public_key())
    assert holder_of(new) == holder_of(old)
    assert (new.not_valid_after_utc - old.not_valid_after_utc).days in {58, 59}
    assert new.serial_number != old.serial_number
    assert (out / "key.pem").read_bytes() == key
    shake_hands(out, out)
    done("renew", "--ca", root, out / "cert.pem", "--out", tmp_path / "later.pem")
    assert read(tmp_path / "later.pem").public_key() == old.public_key()


def test_a_stranger_s_certificate_is_not_renewed(root: Path, tmp_path: Path) -> None:
    stranger, out = tmp_path / "stranger", tmp_path / "b"
    # The same names: only the keys differ.
    done("init", "--cluster", "prod", "--ca", stranger)
    issue(stranger, out, "--broker", ID)
    said = refused("renew", "--ca", root, out / "cert.pem", "--force")
    assert "did not issue the certificate" in said
    assert "of an authority" in refused("renew", "--ca", root, root / "ca.pem", "--force")
    assert "did not issue" in refused("renew", "--ca", root, out / "key.pem", "--force")


def test_a_certificate_does_not_outlive_its_authority(tmp_path: Path) -> None:
    root, out = tmp_path / "ca", tmp_path / "b"
    done("init", "--cluster", "prod", "--ca", root, "--days", "30")
    said = refused("issue", "--ca", root, "--broker", ID, "--out", out)
    assert "29 days at most" in said or "30 days at most" in said
    assert not out.exists()
    issue(root, out, "--broker", ID, "--days", "29")
    said = refused("renew", "--ca", root, out / "cert.pem", "--force", "--days", "31")
    assert "beyond the end of the authority" in said


@pytest.mark.parametrize(
    "words",
    [
        ("--broker", "no-port"),
        ("--broker", "a/../b:80"),
        ("--broker", "h:0"),
        ("--broker", "h:80/x"),
        ("--broker", "::1:80"),
        ("--broker", "h\n:80"),
        ("--client", ""),
        ("--client", "x" * 65),
        ("--client", "a\nb"),
        ("--client", "a", "--host", "h"),
        ("--client", "a", "--broker", ID),
        ("--broker", ID, "--host", "h\u00f6st"),
        (),
    ],
)
def test_what_cannot_be_named_is_refused(
    root: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    refused("issue", "--ca", root, "--out", tmp_path / "b", *words)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("cluster", ["Prod", "a b", "a/b", "", "x" * 256])
def test_a_cluster_without_the_name_of_a_trust_domain_has_no_authority(
    tmp_path: Path, cluster: str
) -> None:
    assert "trust domain" in refused("init", "--cluster", cluster, "--ca", tmp_path / "ca")


def test_files_of_another_kind_are_refused(root: Path, tmp_path: Path) -> None:
    words = ("issue", "--ca", root, "--client", "a", "--out", tmp_path / "b")
    certificate, key = root / "ca.pem", root / "ca.key"
    good = {path: path.read_bytes() for path in (certificate, key)}
    other = tmp_path / "other"
    done("init", "--cluster", "prod", "--ca", other)
    leaf = tmp_path / "leaf"
    issue(root, leaf, "--broker", ID)
    for path, content, why in (
        (key, (other / "ca.key").read_bytes(), "not that of the certificate"),
        (key, b"x", "no certificate and key in PEM form"),
        (certificate, b"x", "no certificate and key in PEM form"),
    ):
        path.write_bytes(content)
        assert why in refused(*words)
        path.write_bytes(good[path])
    certificate.write_bytes((leaf / "cert.pem").read_bytes())
    key.write_bytes((leaf / "key.pem").read_bytes())
    assert "not one of an authority" in refused(*words)
    key.unlink()
    assert "No such file" in refused(*words)
    key.write_bytes(good[key])
    key.chmod(0o620)
    assert "other users of this machine can write" in refused(*words)
