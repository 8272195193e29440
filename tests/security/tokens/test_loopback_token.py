"""The token that a daemon draws for commands on its machine: who finds it, and for how long."""

import asyncio
import base64
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.cli.main import main
from broker_ctl.clock import SystemClock
from broker_ctl.daemon.wiring.security import build_authentication, published_token
from broker_ctl.errors import StartError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import Daemons
from broker_ctl.security.authentication import (
    LOOPBACK_ROLE,
    Authenticator,
    Evidence,
    Principal,
    Proof,
)
from broker_ctl.security.authorization import Operation
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.security.static_tokens import (
    LoopbackToken,
    StaticTokens,
    find_token,
    runtime_directory,
)
from broker_ctl.settings.root import Settings
from tests.support.daemon.in_memory_daemon import settings_of
from tests.support.time.waiting import PATIENCE_S
from tests.support.zookeeper.ensemble import SharedEnsemble

URL: Final = "http://127.0.0.1:8080"
HERE: Final = [("127.0.0.1", 8080)]
PRINCIPAL: Final = Principal(LOOPBACK_ROLE, Proof.LOOPBACK_TOKEN)
STATIC: Final = "0123456789abcdef"


@pytest.fixture
def keys(tmp_path: Path) -> str:
    file = tmp_path / "keys"
    file.write_text(base64.b64encode(bytes(range(32))).decode(), encoding="ascii")
    file.chmod(0o600)
    return f"clusterKeyFile={file}"


def environment(directory: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(directory)}


def place(directory: Path) -> Path:
    return runtime_directory(environment(directory))


def test_a_published_token_is_found_by_its_url_until_the_end(tmp_path: Path) -> None:
    token = LoopbackToken()
    with token.published(place(tmp_path), [*HERE, ("127.0.0.1", 8443)]):
        for url in (URL, "http://localhost:8080/", "https://127.0.0.1:8443"):
            found = find_token(url, environment(tmp_path))
            assert found is not None
            assert token.authenticate(Evidence(found.encode(), is_local=True)) == PRINCIPAL
        for url in ("http://127.0.0.1:8081", "http://127.0.0.2:8080", "http://[::1]:8080", "x"):
            assert find_token(url, environment(tmp_path)) is None
        (file, _) = place(tmp_path).iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert find_token(URL, environment(tmp_path / "elsewhere")) is None
    assert [*place(tmp_path).iterdir()] == []
    assert find_token(URL, environment(tmp_path)) is None


def test_the_end_of_a_daemon_takes_nothing_from_the_one_that_has_its_port_now(
    tmp_path: Path,
) -> None:
    one, other = LoopbackToken(), LoopbackToken()
    with ExitStack() as newer:
        with one.published(place(tmp_path), HERE):
            first = find_token(URL, environment(tmp_path))
            newer.enter_context(other.published(place(tmp_path), HERE))
        second = find_token(URL, environment(tmp_path))
        assert first is not None
        assert second is not None
        assert first != second
        assert one.authenticate(Evidence(second.encode(), is_local=True)) is None
        assert one.authenticate(Evidence(is_local=True)) is None
    assert find_token(URL, environment(tmp_path)) is None


def test_a_file_that_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    token = LoopbackToken()
    with token.published(place(tmp_path), HERE):
        (file,) = place(tmp_path).iterdir()
        file.chmod(0o622)
        assert find_token(URL, environment(tmp_path)) is None
        file.chmod(0o600)
        place(tmp_path).chmod(0o777)
        assert find_token(URL, environment(tmp_path)) is None
        place(tmp_path).chmod(0o700)
        file.rename(file.with_suffix(".real"))
        file.symlink_to(file.with_suffix(".real"))
        assert find_token(URL, environment(tmp_path)) is None


def test_no_token_is_written_where_others_can_write(tmp_path: Path) -> None:
    place(tmp_path).mkdir()
    place(tmp_path).chmod(0o777)
    with (
        pytest.raises(StartError, match="other users"),
        LoopbackToken().published(place(tmp_path), HERE),
    ):
        pass
    assert [*place(tmp_path).iterdir()] == []


def test_no_other_proof_gives_the_role_of_the_local_token() -> None:
    static = StaticTokens.parse(f"{LOOPBACK_ROLE}:{STATIC}")
    assert static.authenticate(Evidence(STATIC.encode())) is not None
    assert Authenticator([static]).authenticate(Evidence(STATIC.encode())) is None


def drawn(settings: Settings) -> LoopbackToken | None:
    built = build_authentication(settings, SystemClock(), Reloader())
    assert built is not None
    if built.local is not None:
        assert built.roles.allow(LOOPBACK_ROLE, Operation.APPROVE)
    return built.local


def test_a_token_is_drawn_where_no_other_could_be_verified(keys: str) -> None:
    on = ("authenticationEnabled=true", keys)
    by_secret = f"tokenSecretKey={base64.b64encode(bytes(32)).decode()}"
    assert drawn(settings_of(*on)) is not None
    assert drawn(settings_of(*on, by_secret)) is None
    assert drawn(settings_of(*on, by_secret, "loopbackTokenEnabled=true")) is not None


def test_nothing_is_published_without_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    settings = settings_of()
    with published_token(settings, build_authentication(settings, SystemClock(), Reloader())):
        assert [*tmp_path.iterdir()] == []


def test_a_token_is_found_at_each_port_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    ports = ("webServicePort=8080", "adminServicePort=8082", "adminBindAddress=127.0.0.2")
    settings = settings_of("authenticationEnabled=true", keys, *ports)
    with published_token(settings, build_authentication(settings, SystemClock(), Reloader())):
        for url in (URL, "http://127.0.0.2:8082"):
            assert find_token(url, environment(tmp_path)) is not None
        assert find_token("http://127.0.0.1:8082", environment(tmp_path)) is None


async def command(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, main, words)


@pytest.mark.slow
async def test_commands_need_no_token_file_while_the_daemon_runs(
    zookeeper: SharedEnsemble,
    chroot: str,
    keys: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    settings = {
        **SETTINGS,
        "metadataStoreUrl": f"zk:{zookeeper.connect_string}{chroot}",
        "authenticationEnabled": "true",
        "clusterKeyFile": keys.partition("=")[2],
    }
    async with (
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=8 << 20) as http,
        Daemons(tmp_path, 1, settings) as cluster,
    ):
        await cluster.wait_ready(http)
        (daemon,) = cluster.all
        assert (await http.request("GET", f"{daemon.url}/control/v1/status")).status == 401
        done = await command("status", "--url", daemon.url)
        assert done.exit_code == 0, done.output
        # A change, for which the daemon asks for a super user.
        paused = await command("pause", "--yes", "--url", daemon.url)
        assert paused.exit_code == 0, paused.output
        await daemon.stop()
        assert [*place(runtime).iterdir()] == []
