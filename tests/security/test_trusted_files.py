"""Who else could have written a file that decides who is believed: its mode, owner and directories.

Each setting that names such a file is judged at the start, at a reload and by ``secrets check``.
"""

import base64
import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.daemon.wiring.tls import PemFile, client_context
from broker_ctl.errors import SettingsError
from broker_ctl.security.guarded_files import read_guarded
from broker_ctl.security.rotation.reloadable import Reloadable
from broker_ctl.settings.root import DECLARATIONS
from broker_ctl.settings.schema import Guard
from tests.support.http.certificates import TLS
from tests.support.security.authority import Issued, issue

STORE = "metadataStoreUrl=zk:127.0.0.1:2181"
TOKENS = ("authenticationEnabled=true", "superUserRoles=admin")
PULSAR = ("dataPlane=pulsar", "pulsarAdminUrl=https://127.0.0.1:9")
ZOOKEEPER_TLS = ("zookeeperTlsEnabled=true", "zookeeperTlsCaFile={authority}")
OPENID = (
    "authenticationEnabled=true",
    "superUserRoles=admin",
    "authenticationProviders=org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID",
    "openIDAllowedTokenIssuers=https://issuer.example",
    "openIDAllowedAudiences=brokers",
    "clusterKeyFile={cluster}",
)
SERVER = (
    "webServicePortTls=8443",
    "tlsCertificateFilePath={certificate}",
    "tlsKeyFilePath={key}",
    "tlsTrustCertsFilePath={authority}",
    "tlsRevocationListFile={revoked}",
)
PEERS = (
    "brokerClientTrustCertsFilePath={authority}",
    "brokerClientCertificateFilePath={certificate}",
    "brokerClientKeyFilePath={key}",
)
ZOOKEEPER = (
    *ZOOKEEPER_TLS,
    "zookeeperTlsCertFile={certificate}",
    "zookeeperTlsKeyFile={key}",
)
PULSAR_TLS = (
    *PULSAR,
    "pulsarTlsTrustCertsFilePath={authority}",
    "pulsarTlsCertificateFilePath={certificate}",
    "pulsarTlsKeyFilePath={key}",
)
ACCOUNT = (
    *PULSAR,
    "pulsarReadsBy=admin-api",
    "pulsarStateUrl=kubernetes:space/state",
    "kubernetesServiceAccountDirectory={account}",
)
# Each setting that names a file that decides who is believed, with those by which it is read.
USES: dict[str, Sequence[str]] = {
    "tokenSecretKeyFile": (*TOKENS, "tokenSecretKeyFile={tokens}"),
    "tokenSecretKey": (*TOKENS, "tokenSecretKey={bytes}"),
    "tokenPublicKey": (*TOKENS, "clusterKeyFile={cluster}", "tokenPublicKey={public}"),
    "tokenJwksFile": (*TOKENS, "clusterKeyFile={cluster}", "tokenJwksFile={jwks}"),
    "openIDTokenIssuerTrustCertsFilePath": (
        *OPENID,
        "openIDTokenIssuerTrustCertsFilePath={authority}",
    ),
    "clusterKeyFile": (*TOKENS, "tokenSecretKeyFile={tokens}", "clusterKeyFile={cluster}"),
    "zookeeperAuthDigestFile": ("zookeeperAuthDigestFile={password}",),
    "zookeeperSaslDigestFile": ("zookeeperSaslDigestFile={password}",),
    "dataPlaneSecretFile": (
        "dataPlane=webhook",
        "dataPlaneUrl=http://127.0.0.1:9",
        "dataPlaneSecretFile={password}",
    ),
    "pulsarTokenFile": (*PULSAR, "pulsarTokenFile={password}"),
    "kubernetesServiceAccountDirectory": ACCOUNT,
    **{each.partition("=")[0]: uses for uses in (SERVER, PEERS) for each in uses if "{" in each},
    **{
        each.partition("=")[0]: uses
        for uses in (ZOOKEEPER, PULSAR_TLS)
        for each in uses
        if "{" in each
    },
}
# Paths that name no such file, and why not.
NOT_GUARDED = {
    "pulsarStateUrl": "has the state of a watcher, which is judged when it is read",
    "auditFile": "is written, and its lines are linked by hashes",
    "loadHistoryDirectory": "is written; the pipeline trusts it, and no daemon does",
    "sessionDirectory": "has the session of stopMode=keep, which is judged when it is taken",
    "simulatedActLog": "is written by a simulated data plane",
    "simulatedLogDirectory": "is written by a simulated data plane",
}


class Files:
    """A file of each kind, below a directory that only this user can write."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory / "etc"
        self.directory.mkdir(mode=0o755)
        self.issued: Issued = issue(self.directory / "issued")
        account = self.directory / "account"
        account.mkdir(mode=0o755)
        self.by_name = {
            "authority": self.issued.authority,
            "certificate": self.issued.certificate,
            "key": self.issued.key,
            "tokens": self._write("tokens", "admin:kG5fEw8ZbQ2yT7uV4hS0nC9pJ3xL6mRd\n"),
            "cluster": self._write("cluster", base64.b64encode(bytes(range(32))).decode()),
            "bytes": self._write("bytes", "kG5fEw8ZbQ2yT7uV4hS0nC9pJ3xL6mRd"),
            "password": self._write("password", "broker:kG5fEw8ZbQ2yT7uV4hS0nC9p"),
            "public": self.directory / "public",
            "revoked": self.directory / "revoked",
            "jwks": self.directory / "jwks",
            "account": account,
        }
        run = CliRunner().invoke
        made = run(
            main,
            [
                *("tokens", "create-key-pair"),
                *("--output-private-key", str(self.directory / "private")),
                *("--output-public-key", str(self.by_name["public"])),
            ],
        )
        assert made.exit_code == 0, made.output
        shutil.copy(TLS / "revoked.pem", self.by_name["revoked"])
        self.by_name["jwks"].write_text(_jwks(), encoding="ascii")
        for name, content in (("token", b"t"), ("namespace", b"space")):
            (account / name).write_bytes(content)
        shutil.copy(self.issued.authority, account / "ca.crt")
        monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)

    def _write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="ascii")
        return path

    def overrides(self, key: str) -> list[str]:
        return [each.format_map(self.by_name) for each in USES[key]]

    def named_by(self, key: str) -> Path:
        """The file of a setting; of a directory, the one that says whom to believe."""
        path = next(
            Path(each.partition("=")[2])
            for each in self.overrides(key)
            if each.startswith(f"{key}=")
        )
        return path / "ca.crt" if path.is_dir() else path

    def check(self, key: str, verb: Sequence[str] = ("config", "check")) -> Result:
        file = self.directory / "broker.conf"
        file.write_text(STORE, encoding="ascii")
        given = [text for each in self.overrides(key) for text in ("--set", each)]
        named = [str(file)] if verb[0] == "config" else ["--config", str(file)]
        return CliRunner().invoke(main, [*verb, *named, *given])


def _jwks() -> str:
    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt.algorithms import ECAlgorithm

    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    row = ECAlgorithm.to_jwk(key)
    return '{"keys":[' + row.replace("{", '{"kid":"one",', 1) + "]}"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(tmp_path, monkeypatch)


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Gives a path to another user; only root can do that in earnest."""

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, 65534, -1, follow_symlinks=False)
            return
        inode, plain = path.lstat().st_ino, os.stat_result
        for name in ("fstat", "lstat", "stat"):
            original = getattr(os, name)

            def looked(
                *args: object, original: Callable[..., os.stat_result] = original, **kw: object
            ) -> os.stat_result:
                found = original(*args, **kw)
                fields = list(found)
                if found.st_ino == inode:
                    fields[4] = 65534
                return plain(fields)

            monkeypatch.setattr(os, name, looked)

    return give


def test_each_setting_that_names_a_file_says_whether_it_decides_who_is_believed() -> None:
    named = {
        key
        for key, one in DECLARATIONS.items()
        if one.kind.allowed == "a path" or "file:" in one.kind.allowed
    }
    guarded = {key for key, one in DECLARATIONS.items() if one.setting.guard is not None}
    assert guarded <= named
    assert named - guarded == NOT_GUARDED.keys()
    assert guarded == USES.keys()


@pytest.mark.parametrize("key", sorted(USES))
def test_the_files_of_the_tests_are_taken(key: str, files: Files) -> None:
    result = files.check(key)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666], ids=oct)
@pytest.mark.parametrize("key", sorted(USES))
def test_a_file_that_others_can_write_ends_the_start(key: str, mode: int, files: Files) -> None:
    files.named_by(key).chmod(mode)
    result = files.check(key)
    assert result.exit_code == 1
    assert f"{key}=" in result.output
    assert "chmod go-w" in result.output
    found = files.check(key, ("secrets", "check"))
    assert found.exit_code == 1, found.output
    assert f"error: {key}" in found.output
    assert "chmod go-w" in found.output


@pytest.mark.parametrize("key", sorted(USES))
def test_a_file_of_another_user_ends_the_start(
    key: str, files: Files, strangers: Callable[[Path], None]
) -> None:
    strangers(files.named_by(key))
    result = files.check(key)
    assert result.exit_code == 1
    assert f"{key}=" in result.output
    assert "belongs to " in result.output
    assert files.check(key, ("secrets", "check")).exit_code == 1


@pytest.mark.parametrize("key", sorted(USES))
def test_a_directory_that_others_can_write_ends_the_start(key: str, files: Files) -> None:
    files.directory.chmod(0o777)
    result = files.check(key)
    assert result.exit_code == 1
    assert f"others can write the directory {files.directory}" in result.output
    assert files.check(key, ("secrets", "check")).exit_code == 1


def test_the_configuration_file_is_judged_as_what_it_names(files: Files) -> None:
    file = files.directory / "broker.conf"
    files.check("clusterKeyFile")
    for verb in (["config", "check", str(file)], ["run", "--config", str(file)]):
        file.chmod(0o666)
        result = CliRunner().invoke(main, verb)
        assert result.exit_code == 1
        assert "chmod go-w" in f"{result.output}{result.exception}"


@pytest.mark.parametrize("level", [0, 1], ids=["above", "far above"])
def test_the_owner_of_a_directory_could_replace_all_in_it(
    level: int, tmp_path: Path, strangers: Callable[[Path], None]
) -> None:
    (tmp_path / "far" / "near").mkdir(parents=True)
    file = tmp_path / "far" / "near" / "file"
    file.write_bytes(b"content")
    assert read_guarded(file) == b"content"
    strangers(file.parents[level])
    with pytest.raises(PermissionError, match=f"{file.parents[level]} belongs to "):
        read_guarded(file)


def test_a_directory_of_all_users_keeps_what_is_ours_and_gives_nobody_else_s(
    tmp_path: Path, strangers: Callable[[Path], None]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "own").mkdir()
    file = shared / "own" / "file"
    file.write_bytes(b"content")
    assert read_guarded(file) == b"content"
    link = shared / "link"
    link.symlink_to("own")
    assert read_guarded(link / "file") == b"content"
    strangers(link)
    with pytest.raises(PermissionError, match=f"{link} belongs to "):
        read_guarded(link / "file")


def test_a_link_leads_through_directories_that_are_judged_too(tmp_path: Path) -> None:
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
    (tmp_path / "open" / "real").write_bytes(b"content")
    link = tmp_path / "closed" / "link"
    link.symlink_to("../open/real")
    assert read_guarded(link) == b"content"
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match=f"directory {tmp_path / 'open'}"):
        read_guarded(link)
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        read_guarded(link)


def test_a_secret_of_kubernetes_is_taken(tmp_path: Path) -> None:
    """A volume is a sticky directory of all, with links to a directory of the day."""
    volume = tmp_path / "secret"
    volume.mkdir()
    volume.chmod(0o3777)
    (volume / "..2026_11_28").mkdir(mode=0o755)
    (volume / "..2026_11_28" / "token").write_bytes(b"content")
    (volume / "..2026_11_28" / "token").chmod(0o440)
    (volume / "..data").symlink_to("..2026_11_28")
    (volume / "token").symlink_to("..data/token")
    assert read_guarded(volume / "token") == b"content"


def test_a_credential_of_systemd_is_taken(tmp_path: Path) -> None:
    """As LoadCredential= leaves it: modes 0500 and 0400, with the mask of an access list."""
    credentials = tmp_path / "broker-ctl.service"
    credentials.mkdir(mode=0o700)
    (credentials / "token").write_bytes(b"content")
    (credentials / "token").chmod(0o440)
    credentials.chmod(0o550)
    assert read_guarded(credentials / "token") == b"content"


def test_a_pipe_with_a_name_is_judged_as_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    pipe.chmod(0o666)
    # Opened for both, so that nobody has to wait.
    holder = os.open(pipe, os.O_RDWR)
    try:
        os.write(holder, b"content")
        with pytest.raises(PermissionError, match="other users"):
            read_guarded(pipe)
    finally:
        os.close(holder)


def test_a_reload_takes_nothing_that_others_could_have_written(files: Files) -> None:
    trust = files.issued.authority
    newest = Reloadable(
        "trust", [trust], lambda: client_context(PemFile("--tls-ca", trust), None), 1
    )
    trust.write_bytes(trust.read_bytes() * 2)
    trust.chmod(0o666)
    attempt = newest.read()
    assert attempt is not None
    assert "chmod go-w" in attempt.error
    trust.chmod(0o644)
    again = newest.read()
    assert again is not None
    assert not again.error


def test_an_option_that_names_an_authority_is_judged(files: Files) -> None:
    files.issued.authority.chmod(0o666)
    with pytest.raises(SettingsError, match="chmod go-w"):
        client_context(PemFile("--tls-ca", files.issued.authority), None)


def test_every_guarded_setting_of_a_secret_says_who_can_read_it() -> None:
    secrets = {key for key, one in DECLARATIONS.items() if one.setting.guard is Guard.SECRET}
    assert {key for key in secrets if "Cert" in key or "Trust" in key} == set()
    assert {key for key in USES if "Key" in key} - secrets == {"tokenPublicKey"}


SECRETS = sorted(key for key, one in DECLARATIONS.items() if one.setting.guard is Guard.SECRET)


@pytest.mark.parametrize("key", SECRETS)
def test_each_secret_that_others_can_read_is_warned_of(key: str, files: Files) -> None:
    assert "can read" not in files.check(key).output
    files.named_by(key).chmod(0o644)
    result = files.check(key)
    assert result.exit_code == 0, result.output
    assert f"{key}=" in result.output
    assert "can read" in result.output
