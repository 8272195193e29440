"""``broker-ctl support-bundle``: what is in it, how large it may be, and that no secret is."""

import base64
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker_ctl.api.http.dependencies import ApiRules
from broker_ctl.cli import diagnosis
from broker_ctl.cli.diagnosis import Redaction
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import CLUSTER, TOKEN
from tests.support.http.web_server import free_port
from tests.support.rules.json_units import out_of_system
from tests.support.security.static_tokens import admitting

# One for each place in which a secret may stand.
PLANTED = {
    "static token": "kG5fEw8ZbQ2yT7uV4hS0nC9pJ3xL6mRd",
    "sasl password": "zk-pass-Vb7Qw2Lm",
    "inline key": base64.b64encode(b"an-inline-signing-key-of-32-bytes").decode(),
    "unknown key": "oldpass-Rt5Yh8Uj",
    "user info of a URL": "urlpass-Kp3Nd6Wz",
    "jwt in a log": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl",
    "bearer in a log": "brr-Qx9Zs4Tc7Ve1",
    "password in a log": "logpass-Hn2Bg5Vf",
    "private key in a log": "MIIEvQIBADANBgkqhkiG9w0BAQEF",
    "reason of a decision": "rsn-Jm4Kl7Op0Qw3",
}
PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    rules = ApiRules(CLUSTER, **admitting(f"admin:{TOKEN}", ["admin"]))
    with running([free_port(), free_port()], rules, TOKEN) as served:
        yield served


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A configuration, its files of secrets, and a log that quotes them."""

    def secret(name: str, text: str) -> Path:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
        return file

    tokens = secret("tokens", f"admin:{PLANTED['static token']}\n")
    sasl = secret("sasl", f"broker:{PLANTED['sasl password']}\n")
    secret("daemon-token", TOKEN)
    (tmp_path / "broker.conf").write_text(
        "clusterName=c1\nauthenticationEnabled=true\nsuperUserRoles=admin\n"
        f"tokenSecretKeyFile={tokens}\nzookeeperSaslDigestFile={sasl}\n"
        f"tokenSecretKey=data:;base64,{PLANTED['inline key']}\n"
        f"myPluginPassword={PLANTED['unknown key']}\n"
        f"brokerClientAuthenticationParameters=token:{PLANTED['unknown key']}\n",
        encoding="utf-8",
    )
    (tmp_path / "daemon.log").write_text(
        f"connecting to http://admin:{PLANTED['user info of a URL']}@b-1:8080/\n"
        f"refused {PLANTED['jwt in a log']} of b-2\n"
        f"Authorization: Bearer {PLANTED['bearer in a log']}\n"
        f"sslKeyPassword = {PLANTED['password in a log']}\n"
        f'{{"secret": "{PLANTED["password in a log"]}", "fencing_token": 4711}}\n'
        f"{PEM.format(PLANTED['private key in a log'])}"
        f"the token {PLANTED['static token']} is not known\n"
        f"sasl {base64.b64encode(PLANTED['sasl password'].encode()).decode()} unquoted\n"
        f"inline {PLANTED['inline key']}\n",
        encoding="utf-8",
    )
    return tmp_path


def members(file: Path) -> Mapping[str, str]:
    """The texts by name, without the directory that holds them all."""
    with tarfile.open(file) as archive:
        found: dict[str, str] = {}
        for member in archive:
            opened = archive.extractfile(member)
            assert opened is not None
            found[member.name.partition("/")[2]] = opened.read().decode()
        return found


def collect(cluster: Cluster, planted: Path, *more: str) -> Mapping[str, str]:
    out = planted / "fault.tar.gz"
    result = cluster.run(
        *("support-bundle", "--out", str(out), "--force", "--unit", "none-of-this-name"),
        *("--token-file", str(planted / "daemon-token")),
        *more,
    )
    assert result.exit_code == 0, result.output
    return members(out)


def test_it_has_what_helps_and_says_what_is_missing(cluster: Cluster, planted: Path) -> None:
    found = collect(cluster, planted, "--config", str(planted / "broker.conf"))
    manifest = json.loads(found["manifest.json"])
    assert list(out_of_system(manifest)) == []
    rows = {row["name"]: row for row in manifest["members"]}
    assert {name for name, row in rows.items() if row["size_bytes"]} == found.keys() - {
        "manifest.json"
    }
    assert json.loads(found["daemon/status.json"])["broker"] == cluster.follower.broker_id
    assert json.loads(found["leader/cluster.json"])["brokers"]
    assert "broker_ctl_" in found["daemon/metrics.txt"]
    assert "thread MainThread" in found["daemon/stacks.txt"]
    assert "task " in found["daemon/stacks.txt"]
    settings = json.loads(found["settings.json"])
    (name,) = [row for row in settings["settings"] if row["key"] == "clusterName"]
    assert (name["value"], name["origin"]) == ("c1", f"{planted / 'broker.conf'}:1")
    assert {"configuration", "clock"} <= {row["check"] for row in json.loads(found["doctor.json"])}
    assert json.loads(found["machine.json"])["broker_ctl"]
    assert rows["journal.txt"]["note"]
    assert (planted / "fault.tar.gz").stat().st_mode & 0o777 == 0o600


def test_no_planted_secret_is_found(cluster: Cluster, planted: Path) -> None:
    reason = f"password={PLANTED['reason of a decision']}"
    token = ("--token-file", str(planted / "daemon-token"))
    assert cluster.run("pause", "--yes", "--reason", reason, *token).exit_code == 0
    log = planted / "daemon.log"
    conf = ("--config", str(planted / "broker.conf"))
    found = collect(cluster, planted, *conf, "--log", str(log))
    everything = "\n".join(found.values())
    for place, secret in {**PLANTED, "the command's own token": TOKEN}.items():
        assert secret not in everything, place
        assert base64.b64encode(secret.encode()).decode().rstrip("=") not in everything, place
    # What helps is left.
    lines = found["logs/0-daemon.log"].splitlines()
    assert "connecting to http://***@b-1:8080/" in lines
    assert '{"secret": "***", "fencing_token": 4711}' in lines
    assert "the token *** is not known" in lines


def test_parts_are_bounded(
    cluster: Cluster, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "_MEMBER_BYTES", 3_000)
    monkeypatch.setattr(diagnosis, "_TOTAL_BYTES", 8_000)
    monkeypatch.setattr(diagnosis, "_END_BYTES", 2_000)
    log = planted / "long.log"
    log.write_text("".join(f"line {number}\n" for number in range(1_000)), encoding="utf-8")
    found = collect(cluster, planted, "--log", str(log))
    rows = json.loads(found["manifest.json"])["members"]
    assert sum(row["size_bytes"] for row in rows) <= 8_000
    assert all(row["size_bytes"] <= 3_000 for row in rows)
    assert any(row["note"].startswith("cut from ") for row in rows)


def test_the_end_of_a_log_begins_with_a_whole_line(
    cluster: Cluster, planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "_END_BYTES", 100)
    log = planted / "long.log"
    log.write_text("".join(f"line {number:04}\n" for number in range(50)), encoding="utf-8")
    lines = collect(cluster, planted, "--log", str(log))["logs/0-long.log"].splitlines()
    assert lines == [f"line {number:04}" for number in range(41, 50)]


def test_without_a_daemon_what_the_machine_knows_is_collected(tmp_path: Path) -> None:
    from broker_ctl.cli.main import main

    out = tmp_path / "x.tar.gz"
    url = f"http://127.0.0.1:{free_port()}"
    result = CliRunner().invoke(main, ["support-bundle", "--url", url, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert members(out).keys() == {"manifest.json", "machine.json"} | (
        members(out).keys() & {"journal.txt"}
    )
    again = CliRunner().invoke(main, ["support-bundle", "--url", url, "--out", str(out)])
    assert (again.exit_code, "exists; --force replaces it" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tokenSecretKeyFile=/etc/tokens", "tokenSecretKeyFile=/etc/tokens"),
        ("token=7 of 9", "token=7 of 9"),
        ('{"token": "abc"}', '{"token": "***"}'),
        ("clientSecret='a b'", "clientSecret=***"),
        ("https://u:p@h/x and https://h/x@y", "https://***@h/x and https://h/x@y"),
        ("bearer abcdef123", "bearer ***"),
        ("cookie-eyJhbGciOiJ9.eyJzdWIi.c2ln, eyJhbGciOiJ9.e30.", "cookie-***, ***"),
        ("x-eyJshort.y", "x-eyJshort.y"),
        ("a known-one word", "a *** word"),
        (PEM.format("x") + "after", "***\nafter"),
        ("-----BEGIN EC PRIVATE KEY-----\ncut", "***"),
    ],
)
def test_what_is_taken_out_of_a_text(text: str, expected: str) -> None:
    assert Redaction(["known-one ", "known", "a"]).of(text) == expected


@pytest.mark.parametrize(
    "piece",
    ["a-", "a.", "-eyJ", "eyJabcdefgh-", "token-", '"token', "token=", "//", "data:", "bearer  "],
)
def test_a_long_text_of_a_client_s_is_gone_through_once(piece: str) -> None:
    """With the square of its length, one of these would take hours."""
    text = piece * 100_000
    assert Redaction().of(f"{text} password=abc").endswith(" password=***")
