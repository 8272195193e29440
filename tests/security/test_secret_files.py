"""Secret files by their mode: what others can write is refused, what they can read is warned of."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.cli.runtime.secret_files import read_secret_file
from broker_ctl.errors import StartError
from broker_ctl.security.guarded_files import read_secret
from tests.support.security.authority import issue

Write = Callable[[int], Path]
STORE = "metadataStoreUrl=zk:127.0.0.1:2181"
SECRET = "admin:0123456789abcdef"
# Every setting that names a file with a secret, and the settings with which it is read.
SETTINGS = {
    "tokenSecretKeyFile": ("authenticationEnabled=true", "superUserRoles=admin"),
    "zookeeperAuthDigestFile": (),
    "zookeeperSaslDigestFile": (),
    "dataPlaneSecretFile": ("dataPlane=webhook", "dataPlaneUrl=http://127.0.0.1:9"),
    "pulsarTokenFile": ("dataPlane=pulsar", "pulsarAdminUrl=http://127.0.0.1:9"),
}
# Every option that does, with a verb; the address is that of no process.
OPTIONS = {
    "--token-file": ("status", "--url", "http://127.0.0.1:9"),
    "--secret-file": ("dataplane", "check", "http://127.0.0.1:9"),
    "--zookeeper-digest-file": ("brokers", "monitor", "--zookeeper", "127.0.0.1:9", "--once"),
    "--zookeeper-sasl-file": ("brokers", "monitor", "--zookeeper", "127.0.0.1:9", "--once"),
}
# Every setting that names a private key.
KEYS = {
    "tlsKeyFilePath": ("tlsCertificateFilePath=CERTIFICATE", "webServicePortTls=8443"),
    "brokerClientKeyFilePath": ("brokerClientCertificateFilePath=CERTIFICATE",),
    "zookeeperTlsKeyFile": ("zookeeperTlsCertFile=CERTIFICATE", "zookeeperTlsEnabled=true"),
    "pulsarTlsKeyFilePath": (
        *("pulsarTlsCertificateFilePath=CERTIFICATE", "dataPlane=pulsar"),
        "pulsarAdminUrl=http://127.0.0.1:9",
    ),
}
WRITABLE = (0o620, 0o602, 0o666, 0o660, 0o777)
READABLE = (0o640, 0o604, 0o644, 0o440)
CLOSED = (0o600, 0o400)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(mode: int) -> Path:
        file = tmp_path / "secret"
        file.write_text(SECRET, encoding="ascii")
        file.chmod(mode)
        return file

    return write


def check(tmp_path: Path, *overrides: str) -> Result:
    file = tmp_path / "broker.conf"
    file.write_text(STORE, encoding="ascii")
    arguments = [text for override in overrides for text in ("--set", override)]
    return CliRunner().invoke(main, ["config", "check", str(file), *arguments])


@pytest.mark.parametrize("mode", WRITABLE, ids=oct)
@pytest.mark.parametrize("key", SETTINGS)
def test_a_secret_that_others_can_write_is_refused(
    key: str, mode: int, write: Write, tmp_path: Path
) -> None:
    file = write(mode)
    result = check(tmp_path, f"{key}={file}", *SETTINGS[key])
    assert result.exit_code == 1
    assert f"{key}={file}: " in result.output
    assert "chmod go-w" in result.output
    assert "0123456789abcdef" not in result.output


@pytest.mark.parametrize("mode", READABLE, ids=oct)
@pytest.mark.parametrize("key", SETTINGS)
def test_a_secret_that_others_can_read_is_warned_of(
    key: str, mode: int, write: Write, tmp_path: Path
) -> None:
    file = write(mode)
    result = check(tmp_path, f"{key}={file}", *SETTINGS[key])
    assert result.exit_code == 0, result.output
    assert f"warning: --set: {key}={file}: " in result.output
    assert "can read" in result.output


@pytest.mark.parametrize("mode", CLOSED, ids=oct)
@pytest.mark.parametrize("key", SETTINGS)
def test_a_closed_secret_is_read_in_silence(
    key: str, mode: int, write: Write, tmp_path: Path
) -> None:
    result = check(tmp_path, f"{key}={write(mode)}", *SETTINGS[key])
    assert (result.exit_code, result.output) == (0, "ok\n")


@pytest.mark.parametrize("mode", WRITABLE, ids=oct)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_refuses_a_file_that_others_can_write(
    option: str, mode: int, write: Write
) -> None:
    file = write(mode)
    result = CliRunner().invoke(main, [*OPTIONS[option], option, str(file)])
    assert result.exit_code == 2
    assert f"Invalid value for {option}: {file}: " in result.stderr
    assert "chmod go-w" in result.stderr


@pytest.mark.parametrize("mode", [*READABLE, *CLOSED], ids=oct)
def test_an_option_warns_of_a_file_that_others_can_read(
    mode: int, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(mode)
    assert read_secret_file(file, "--token-file") == SECRET.encode()
    warned = capsys.readouterr().err
    assert ("can read this secret" in warned) == (mode in READABLE)
    assert (f"warning: --token-file {file}: " in warned) == (mode in READABLE)


@pytest.mark.parametrize("key", KEYS)
def test_a_private_key_is_a_secret_too(key: str, tmp_path: Path) -> None:
    files = issue(tmp_path / "issued")
    overrides = [each.replace("CERTIFICATE", str(files.certificate)) for each in KEYS[key]]
    files.key.chmod(0o620)
    refused = check(tmp_path, f"{key}={files.key}", *overrides)
    assert refused.exit_code == 1
    assert f"{key}={files.key}: " in refused.output
    assert "chmod go-w" in refused.output
    files.key.chmod(0o640)
    warned = check(tmp_path, f"{key}={files.key}", *overrides)
    assert warned.exit_code == 0
    assert f"warning: --set: {key}={files.key}: " in warned.output


def test_a_pipe_has_no_mode_to_judge() -> None:
    """As of a shell's ``--token-file <(pass show broker-ctl)``."""
    reader, writer = os.pipe()
    os.write(writer, SECRET.encode())
    os.close(writer)
    try:
        assert read_secret_file(Path(f"/dev/fd/{reader}"), "--token-file") == SECRET.encode()
    finally:
        os.close(reader)


def test_a_service_reads_a_file_of_root_by_its_group(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(0o640)
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    else:
        of_root = list(file.stat())
        of_root[stat.ST_UID] = 0
        monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(of_root))
    read_secret_file(file, "--token-file")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xef\xbb\xbfuser:secret\n", "byte order mark"),
        (b"# ZooKeeper\nuser:secret\n", "several lines"),
        (b"user:secret\r\nother:secret\r\n", "several lines"),
        (b"user:secret \r\n\n", ""),
    ],
)
def test_a_secret_is_one_line_without_a_mark(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    """ZooKeeper would refuse any other, and a unit does not restart after that."""
    secret = tmp_path / "digest"
    secret.touch(mode=0o600)
    secret.write_bytes(content)
    if complaint:
        with pytest.raises(StartError, match=complaint):
            read_secret(secret, "zookeeperSaslDigestFile")
    else:
        assert read_secret(secret, "zookeeperSaslDigestFile") == b"user:secret"
