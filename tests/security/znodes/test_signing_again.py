"""``broker-ctl zookeeper sign``: nodes from before signatures, and of an old key."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from kazoo.client import KazooClient

from broker_ctl.cli.cluster_key import command as cluster_key
from broker_ctl.cli.main import main
from broker_ctl.core.cluster.directives import AuditInfo, Drain, Pause
from broker_ctl.security.cluster_key import KeyFile, new_key_line
from broker_ctl.store import paths
from broker_ctl.store.records.directives import DrainRecord, PauseRecord
from tests.support.zookeeper.ensemble import SharedEnsemble

ORDER = AuditInfo.of(1_000, "operator", "repair\x1b[2J")
PAUSE = PauseRecord(Pause(ORDER)).encode()
DRAIN = DrainRecord(Drain(ORDER, 1, 0.0)).encode()


@pytest.fixture
def operator(attacker: KazooClient) -> KazooClient:
    """The same client in better hands."""
    return attacker


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return write(tmp_path / "key", KeyFile.parse(new_key_line()))


def write(path: Path, keys: KeyFile) -> Path:
    path.write_text(str(keys), encoding="utf-8")
    path.chmod(0o600)
    return path


@pytest.fixture
def configuration(zookeeper: SharedEnsemble, chroot: str, key: Path, tmp_path: Path) -> Path:
    file = tmp_path / "broker.conf"
    url = f"zk:{zookeeper.connect_string}{chroot}"
    text = f"metadataStoreUrl={url}\nclusterName=c\nclusterKeyFile={key}\n"
    file.write_text(text, encoding="utf-8")
    return file


def run(configuration: Path, *words: str, answer: str = "") -> Result:
    return CliRunner().invoke(
        main, ["zookeeper", "sign", "--config", str(configuration), *words], input=answer
    )


def problems(configuration: Path) -> dict[str, str]:
    """The problem of each node that would be signed."""
    done = run(configuration, "--dry-run", "--output", "json")
    assert done.exit_code == 0, done.output
    rows: list[dict[str, Any]] = json.loads(done.stdout)["nodes"]
    return {row["path"]: row["problem"] for row in rows}


def test_nodes_are_shown_and_signed_when_the_operator_agrees(
    operator: KazooClient, configuration: Path
) -> None:
    plan, progress = paths.plan("p"), paths.plan_progress("p")
    drain = paths.drain("a:1")
    for path, data in ((paths.PAUSE, PAUSE), (drain, DRAIN), (plan, b'{"x":1}')):
        operator.create(path, data, makepath=True)
    operator.create(progress, b'{"y":1}')
    operator.create(paths.queued(1, 2), b'{"z":1}', makepath=True)
    # A broker signs its own, and what is not ours is nobody's business.
    operator.create(paths.registration("a:1"), b'{"r":1}', ephemeral=True, makepath=True)
    operator.create("/admin/policies/t", b'{"p":1}', makepath=True)
    expected = dict.fromkeys((paths.PAUSE, drain, plan, progress, paths.queued(1, 2)), "unsigned")
    assert problems(configuration) == expected
    assert operator.get(paths.PAUSE)[0] == PAUSE

    refused = run(configuration, answer="n\n")
    assert refused.exit_code == 1
    assert "repair\\u001b[2J" in refused.output
    assert "\x1b" not in refused.output
    assert operator.get(paths.PAUSE)[0] == PAUSE

    done = run(configuration, answer="y\n")
    assert done.exit_code == 0, done.output
    assert "5 of 5 nodes were signed" in done.output
    assert problems(configuration) == {}
    assert operator.get("/admin/policies/t")[0] == b'{"p":1}'
    assert operator.get(paths.registration("a:1"))[0] == b'{"r":1}'


def test_nodes_of_an_old_key_are_signed_with_the_new_one_before_the_old_goes(
    operator: KazooClient, configuration: Path, key: Path
) -> None:
    operator.create(paths.PAUSE, PAUSE, makepath=True)
    assert run(configuration, "--yes").exit_code == 0
    old = KeyFile.parse(key.read_text(encoding="utf-8"))
    both = old.add(new_key_line())
    write(key, both)
    assert problems(configuration) == {}
    promoted = both.promote(both.ids[1])
    write(key, promoted)
    assert problems(configuration) == {paths.PAUSE: "old-key"}
    assert run(configuration, "--yes").exit_code == 0
    write(key, promoted.remove(old.ids[0]))
    assert problems(configuration) == {}
    write(key, old)
    assert problems(configuration) == {paths.PAUSE: "wrong"}


def test_what_is_not_json_cannot_be_signed(operator: KazooClient, configuration: Path) -> None:
    request = paths.deletion("t")
    operator.create(request, b"", makepath=True)
    done = run(configuration, "--yes")
    assert (done.exit_code, "0 of 1 nodes were signed" in done.output) == (1, True)
    assert operator.get(request)[0] == b""


def test_a_cluster_without_keys_signs_nothing(configuration: Path) -> None:
    done = run(configuration, "--set", "clusterKeyFile=", "--dry-run")
    assert done.exit_code == 1
    assert "set clusterKeyFile" in done.output


def test_a_key_stays_while_only_it_verifies_nodes(
    operator: KazooClient, configuration: Path, key: Path
) -> None:
    operator.create(paths.PAUSE, PAUSE, makepath=True)
    assert run(configuration, "--yes").exit_code == 0
    # Of nobody: no removal of a key makes it worse.
    operator.create(paths.drain("a:1"), DRAIN, makepath=True)
    (old,) = KeyFile.parse(key.read_text()).ids
    keys = KeyFile.parse(key.read_text()).add(new_key_line())
    write(key, keys.promote(keys.ids[-1]))

    def remove(*words: str) -> Result:
        given = ["remove", str(key), old, "--config", str(configuration), *words]
        return CliRunner().invoke(cluster_key, given)

    planned = remove("--dry-run", "--output", "json")
    assert json.loads(planned.stdout)["nodes"] == [paths.PAUSE]
    refused = remove()
    assert (refused.exit_code, paths.PAUSE in refused.output) == (1, True)
    assert paths.drain("a:1") not in refused.output
    assert old in KeyFile.parse(key.read_text()).ids
    assert run(configuration, "--yes").exit_code == 0
    done = remove("--output", "json")
    assert (done.exit_code, json.loads(done.stdout)["nodes"]) == (0, [])
    assert len(KeyFile.parse(key.read_text()).ids) == 1


def test_a_key_is_removed_by_force(operator: KazooClient, configuration: Path, key: Path) -> None:
    operator.create(paths.PAUSE, PAUSE, makepath=True)
    assert run(configuration, "--yes").exit_code == 0
    (old,) = KeyFile.parse(key.read_text()).ids
    keys = KeyFile.parse(key.read_text()).add(new_key_line())
    write(key, keys.promote(keys.ids[-1]))
    given = ["remove", str(key), old, "--config", str(configuration), "--force"]
    done = CliRunner().invoke(cluster_key, given)
    assert (done.exit_code, paths.PAUSE in done.output) == (0, True)
    assert problems(configuration) == {paths.PAUSE: "wrong"}
