"""Completion in a shell: verbs, and names from the cluster, which a key press may not wait for."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from broker_ctl.cli.main import main
from broker_ctl.cli.runtime import verbs
from tests.support.clusters.cli_cluster import Cluster, running
from tests.support.clusters.fake_services import BUNDLES
from tests.support.http.web_server import free_port


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running([free_port(), free_port()], token="t" * 32) as cluster:
        yield cluster


def complete(*words: str, incomplete: str = "") -> list[str]:
    completion = ShellComplete(main, {}, "broker-ctl", "_BROKER_CTL_COMPLETE")
    return [item.value for item in completion.get_completions(list(words), incomplete)]


def asking(cluster: Cluster, tmp_path: Path) -> tuple[str, ...]:
    token = tmp_path / "token"
    token.write_text("t" * 32)
    token.chmod(0o600)
    return "--url", cluster.follower.url, "--token-file", str(token)


def test_brokers_namespaces_and_bundles_of_the_cluster_are_offered(
    cluster: Cluster, tmp_path: Path
) -> None:
    options = asking(cluster, tmp_path)
    brokers = sorted([cluster.leader.broker_id, cluster.follower.broker_id])
    assert complete("drain", *options) == brokers
    assert complete("drain", *options, incomplete=brokers[1]) == [brokers[1]]
    assert "t/ns" in complete("namespaces", "unload", *options)
    assert "t/ns/" in complete("bundles", "unload", *options, incomplete="t/n")
    assert complete("bundles", "unload", *options, incomplete="t/ns/") == sorted(map(str, BUNDLES))


def test_a_name_that_a_shell_would_read_is_not_offered(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["$(touch${IFS}x):8080", "-oProxyCommand=x:1", "a b:1", "a;b:1", "'a':1", "a:1"]
    monkeypatch.setattr(verbs, "_ask", lambda *_: names)
    assert complete("drain", *asking(cluster, tmp_path)) == ["a:1"]


def test_without_a_daemon_there_are_no_names_and_no_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert complete("drain", "--url", "http://127.0.0.1:1") == []
    assert complete("drain", "--url", "nothing") == []
    assert capsys.readouterr() == ("", "")


def test_a_daemon_that_does_not_answer_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "_LIMIT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert complete("drain", "--url", url) == []


def test_verbs_and_options_are_offered() -> None:
    assert complete(incomplete="units") == ["units"]
    assert "--dry-run" in complete("units", "install", incomplete="--d")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed_and_the_shell_can_read_it(
    shell: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0, result.output
    assert f"_BROKER_CTL_COMPLETE={shell}_complete" in result.output
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(result.output)
    check = subprocess.run([program, "-n", str(script)], capture_output=True, check=False)
    assert check.returncode == 0, check.stderr


def test_bash_keeps_an_id_with_its_port_in_one_word(tmp_path: Path) -> None:
    program = tmp_path / "broker-ctl"
    program.write_text('#!/bin/sh\necho "plain,10.0.0.1:8080"\n')
    program.chmod(0o755)
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    typed = (
        f'{script}\n_broker_ctl_completion broker-ctl\necho "$COMP_WORDBREAKS" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "-c", f"COMP_WORDBREAKS=' :='; {typed}"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert (done.returncode, done.stdout.split()) == (0, ["=", "10.0.0.1:8080"])
