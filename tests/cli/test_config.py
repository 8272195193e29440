"""broker-ctl config, as an operator types it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from broker_ctl.cli.main import main
from broker_ctl.settings.effect import render, render_plain
from broker_ctl.settings.pulsar_keys import OLD_KEYS
from broker_ctl.settings.root import DECLARATIONS, Settings
from broker_ctl.settings.sources import load, read

Write = Callable[[str], Path]
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*arguments: str | Path, **environment: str) -> Result:
        return CliRunner(env=environment).invoke(main, ["config", *map(str, arguments)])

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        file = tmp_path / "broker.conf"
        file.write_text(text, encoding="utf-8")
        return file

    return write


# Empty, these name nothing, and a daemon needs something there.
NEEDED = ("webServicePort", "brokerServicePort", "supportedNamespaceBundleSplitAlgorithms")
PULSAR_KEYS = Path(__file__).parents[1] / "settings" / "pulsar_4_0_keys.txt"
GOOD = "metadataStoreUrl=zk:localhost:2181\n"


def test_a_good_file_is_ok(run: Run, write: Write) -> None:
    result = run("check", write(GOOD))
    assert (result.exit_code, result.output) == (0, "ok\n")


def test_check_reports_every_problem_with_its_line(run: Run, write: Write) -> None:
    file = write("webServicePort=http\nlogLevl=info\n")
    result = run("check", file)
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"error: {file}:1: webServicePort=http: allowed: an integer from 1 to 65535",
        f"error: {file}:2: logLevl: unknown key; logLevel is meant",
        "2 error(s)",
    ]


def test_check_reports_what_would_keep_a_daemon_from_starting(run: Run, write: Write) -> None:
    file = write("bindAddress=0.0.0.0\n")
    result = run("check", file)
    assert result.exit_code == 1
    assert "metadataStoreUrl: not set" in result.output
    assert f"{file}:1: bindAddress=0.0.0.0: anybody could command" in result.output
    healed = run("check", file, "--set", "allowInsecureListener=true", "--set", GOOD.strip())
    assert healed.exit_code == 0


def test_check_lists_keys_without_effect_and_never_their_values(run: Run, write: Write) -> None:
    file = write(GOOD + "tlsKeyStorePassword=hunter2\nfrobnicate=hunter3\n")
    result = run("check", file)
    assert result.exit_code == 0
    assert "Pulsar's, without effect here: 1" in result.output
    assert f"tlsKeyStorePassword   {file}:2" in result.output
    assert "unknown, without effect: 1" in result.output
    assert f"frobnicate   {file}:3" in result.output
    assert "hunter" not in result.output


def test_check_speaks_json(run: Run, write: Write) -> None:
    file = write(GOOD + "tlsEnabled=true\nfrobnicate=1\nstopMode=drop\n")
    result = run("check", file, "--output", "json")
    assert result.exit_code == 1
    assert json.loads(result.output) == {
        "ok": False,
        "problems": [
            {
                "origin": f"{file}:4",
                "key": "stopMode",
                "value": "drop",
                "message": "allowed: handover or keep",
            }
        ],
        "warnings": [],
        "without_effect": [],
        "unused": [{"origin": f"{file}:2", "key": "tlsEnabled"}],
        "unknown": [{"origin": f"{file}:3", "key": "frobnicate"}],
    }


def test_check_names_what_nothing_reads_and_what_balance_goes_by(run: Run, write: Write) -> None:
    file = write(GOOD + "loadBalancerBrokerThresholdShedderPercentage=20\n")
    table = run("check", file)
    assert table.exit_code == 0
    assert "without effect: 1" in table.output
    assert "Strategy balance uses loadBalancerPlannerHighPercentage" in table.output
    assert table.output.endswith("ok\n")
    (one,) = json.loads(run("check", file, "--output", "json").output)["without_effect"]
    strategy = "loadBalancerLoadSheddingStrategy"
    assert one == {
        "origin": f"{file}:2",
        "key": "loadBalancerBrokerThresholdShedderPercentage",
        "message": f"needs {strategy}=ThresholdShedder; {strategy} is balance (default)",
        "instead": ["loadBalancerPlannerHighPercentage", "loadBalancerPlannerLowPercentage"],
    }


def test_check_accounts_for_every_key_of_pulsars_own_file(run: Run, write: Write) -> None:
    keys = PULSAR_KEYS.read_text("ascii").split()
    lines = [f"{key}=" for key in keys if key not in NEEDED]
    result = run("check", write("\n".join(lines)), "--output", "json", "--set", GOOD.strip())
    assert result.exit_code == 0
    report = json.loads(result.output)
    assert report["unknown"] == []
    unused = {entry["key"] for entry in report["unused"]}
    assert set(keys) - unused <= DECLARATIONS.keys() | OLD_KEYS


def test_check_tries_what_a_start_would(run: Run, write: Write, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("admin:0123456789abcdef", encoding="ascii")
    secret.chmod(0o644)
    auth = f"authenticationEnabled=true\ntokenSecretKeyFile={secret}\nsuperUserRoles="
    refused = run("check", write(GOOD + auth + "admn\n"))
    assert refused.exit_code == 1
    assert "none of its roles is one of superUserRoles" in refused.output
    taken = run("check", write(GOOD + auth + "admin\n"))
    assert taken.exit_code == 0
    assert f"warning: {tmp_path}/broker.conf:3: tokenSecretKeyFile={secret}: every" in taken.output


def test_check_takes_the_environment_into_account(run: Run, write: Write) -> None:
    assert run("check", write(""), BROKER_CTL_metadataStoreUrl="zk:localhost").exit_code == 0


def test_a_missing_file_is_an_error(run: Run, tmp_path: Path) -> None:
    for verb in ("check", "show"):
        result = run(verb, tmp_path / "none.conf")
        assert result.exit_code == 1
        assert "none.conf: cannot be read: No such file or directory" in result.output


def test_show_names_every_key_with_value_and_origin(run: Run, write: Write) -> None:
    file = write("clusterName=x\n")
    result = run("show", file, "--set", "dryRun=true", BROKER_CTL_logLevel="debug")
    assert result.exit_code == 0
    rows = {
        line.split()[0]: line.split()[1:] for line in result.output.splitlines() if line.split()
    }
    assert rows["clusterName"] == ["x", f"{file}:1"]
    assert rows["dryRun"] == ["true", "--set"]
    assert rows["logLevel"] == ["debug", "environment"]
    assert rows["webServicePort"] == ["8080", "default"]
    assert rows.keys() >= DECLARATIONS.keys()


def test_show_explains(run: Run) -> None:
    result = run("show", "--explain", "--output", "json")
    row = next(
        row
        for row in json.loads(result.output)
        if row["key"] == "loadBalancerSheddingIntervalMinutes"
    )
    assert row == {
        "key": "loadBalancerSheddingIntervalMinutes",
        "value": "1",
        "origin": "default",
        "unit": "minutes",
        "allowed": "a number of at least 0.001",
        "dynamic": "yes",
        "meaning": "Pause between the end of one shedding cycle and the start of the next.",
    }


def test_brackets_in_a_value_are_not_markup(run: Run) -> None:
    assert "[red]trace" in run("show", "--set", "simulatedWorkload=[red]trace").output


def test_show_writes_a_file_that_means_the_same(run: Run, tmp_path: Path) -> None:
    arguments = ("--set", "loadBalancerSheddingIntervalMinutes=0.1", "--output", "conf")
    expected = load(None, {}, ["loadBalancerSheddingIntervalMinutes=0.1"])
    assert run("show", *arguments).output == render_plain(expected)
    assert run("show", *arguments, "--explain").output == render(expected)
    file = tmp_path / "shown.conf"
    file.write_text(run("show", *arguments).output, encoding="utf-8")
    assert load(file, {}, []) == expected != Settings()


def test_show_refuses_bad_settings(run: Run) -> None:
    result = run("show", "--set", "dryRun=perhaps")
    assert result.exit_code == 1
    assert "--set: dryRun=perhaps: allowed: true or false" in result.output


@pytest.mark.parametrize("verb", [[], ["check"], ["show"]])
def test_help_has_examples(run: Run, verb: list[str]) -> None:
    result = run(*verb, "--help")
    assert result.exit_code == 0
    assert "Examples:\n    broker-ctl config" in result.output


def test_init_writes_a_file_that_sets_what_was_given_and_explains_every_key(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "new.conf"
    given = ("--set", "clusterName=prod")
    assert run("init", file, *given, BROKER_CTL_webServicePort="8081").exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o640
    text = file.read_text()
    lines = text.splitlines()
    assert [line for line in lines if line and line[0] != "#"] == [
        "clusterName=prod",
        "webServicePort=8081",
    ]
    keys = {line[1:].partition("=")[0] for line in lines if line.startswith("#")}
    assert keys >= DECLARATIONS.keys() - {"clusterName", "webServicePort"}


def test_init_prints_what_it_would_write_and_keeps_an_existing_file(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "new.conf"
    printed = run("init", file, "--dry-run")
    assert (printed.exit_code, file.exists()) == (0, False)
    file.write_text("mine")
    refused = run("init", file)
    assert (refused.exit_code, file.read_text()) == (2, "mine")
    assert "--force replaces it" in refused.output
    assert run("init", file, "--force").exit_code == 0
    assert file.read_text() == printed.output


def test_init_refuses_a_value_that_a_daemon_would_refuse(run: Run, tmp_path: Path) -> None:
    refused = run("init", tmp_path / "new.conf", "--set", "webServicePort=http")
    assert refused.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_variables_of_the_command_line_are_not_taken_for_settings() -> None:
    own = {
        variable
        for command in commands(main)
        for option in command.params
        if isinstance(option, click.Option) and isinstance(variable := option.envvar, str)
    }
    assert len(own) > 5
    reading = read(None, dict.fromkeys(own, "x"), [])
    assert [*reading.problems, *reading.unknown, *reading.unused] == []


def commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None, name
            yield from commands(below)
