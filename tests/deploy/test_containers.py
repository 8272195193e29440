"""Dockerfile and compose file: what they name exists, and what they set is obeyed."""

import json
import re
from pathlib import Path

import pytest
import yaml

from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import ENVIRONMENT_PREFIX, Reading, read
from broker_ctl.settings.startable import start_problems

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "deploy" / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()
COMPOSE = (DOCKER / "compose.yaml").read_text()
ZOO_CFG = (DOCKER / "zookeeper" / "zoo.cfg").read_text()


def services(kind: str) -> dict[str, str]:
    """The services of a name's kind, with their text."""
    body = re.search(r"^services:\n((?:  .*\n|\n)+)", COMPOSE, re.MULTILINE)
    assert body
    names_and_texts = re.split(r"^  ([\w-]+):\n", body[1], flags=re.MULTILINE)[1:]
    pairs = zip(names_and_texts[::2], names_and_texts[1::2], strict=True)
    return {name: text for name, text in pairs if name.startswith(kind)}


def environment_of(broker: str) -> dict[str, str]:
    lines = (DOCKER / "broker.env").read_text().splitlines()
    common = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return common | dict(re.findall(r"(BROKER_CTL_\w+): ([^,}\s]+)", services("broker")[broker]))


def reading_of(broker: str) -> Reading:
    return read(None, environment_of(broker), [])


def instructions(word: str) -> list[str]:
    whole_lines = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^(?:HEALTHCHECK .*)?{word} (.*)$", whole_lines, re.MULTILINE)


@pytest.mark.parametrize(
    ("anchor", "service"), [("x-broker", "broker"), ("x-zookeeper", "zookeeper")]
)
def test_a_container_has_no_rights_and_bounds(anchor: str, service: str) -> None:
    composition = yaml.safe_load(COMPOSE)
    common = composition[anchor]
    assert common["read_only"] is True
    assert common["cap_drop"] == ["ALL"]
    assert common["security_opt"] == ["no-new-privileges:true"]
    assert common["mem_limit"] == "1g"
    assert common["pids_limit"] > 0
    for mount in common["tmpfs"]:
        assert "size=" in mount
    found = [each for name, each in composition["services"].items() if name.startswith(service)]
    assert len(found) == 3
    for each in found:
        # None of them takes a bound away.
        assert {key: each[key] for key in common} == common
        for volume in each["volumes"]:
            assert volume.startswith(f"{service}-") or volume.endswith(":ro")
    if service == "zookeeper":
        heap_mb = {int(each["environment"]["ZK_SERVER_HEAP"]) for each in found}
        # What Java needs beside its heap has room.
        assert heap_mb == {512}
        assert common["user"] == "1000:1000"


def test_there_are_three_brokers_and_an_ensemble() -> None:
    assert len(services("broker")) == len(services("zookeeper")) == 3


@pytest.mark.parametrize("broker", services("broker"))
def test_every_environment_key_is_a_setting_and_a_broker_starts_with_them(broker: str) -> None:
    reading = reading_of(broker)
    assert all(key.startswith(ENVIRONMENT_PREFIX) for key in environment_of(broker))
    assert [*reading.problems, *reading.unknown, *reading.unused] == []
    assert start_problems(reading) == ()
    assert reading.settings.broker.broker_id == f"{broker}:8080"
    assert not reading.settings.security.allow_insecure_listener


def test_the_brokers_know_the_ensemble_as_it_runs() -> None:
    settings = reading_of("broker-1").settings
    assert settings.metadata.store_url is not None
    assert {server.host for server in settings.metadata.store_url.servers} == {
        *services("zookeeper")
    }
    assert f"\ntickTime={settings.zookeeper.tick_time_ms}\n" in ZOO_CFG
    assert {server.port for server in settings.metadata.store_url.servers} == {
        int(port) for port in re.findall(r"^secureClientPort=(\d+)$", ZOO_CFG, re.MULTILINE)
    }
    for number, (name, text) in enumerate(services("zookeeper").items(), 1):
        assert f'ZOO_MY_ID: "{number}"' in text
        assert f"\nserver.{number}={name}:2888:3888\n" in ZOO_CFG
    # The servers grant twenty ticks at most.
    granted_s = min(settings.metadata.session_timeout_s, 20 * settings.zookeeper.tick_time_s)
    LeaseRules(granted_s, settings.zookeeper.tick_time_s).check()


def test_secret_state_and_network_are_where_the_settings_say() -> None:
    settings = reading_of("broker-1").settings
    named = {path for path in environment_of("broker-1").values() if path.startswith("/run")}
    named |= set(re.findall(r"/run/secrets/[\w-]+", ZOO_CFG + COMPOSE))
    declared = re.findall(r"^  ([\w-]+):\n    file: \./secrets/([\w-]+)$", COMPOSE, re.MULTILINE)
    assert named == {f"/run/secrets/{name}" for name, _ in declared}
    assert all(name == file for name, file in declared)
    mounted = re.findall(r"^  secrets: \[(.*)\]$", COMPOSE, re.MULTILINE)
    assert {name for line in mounted for name in line.split(", ")} == {name for name, _ in declared}
    (volume,) = instructions("VOLUME")
    assert str(settings.history.directory).startswith(volume)
    for number, text in enumerate(services("broker").values(), 1):
        # Published for this machine alone.
        assert f'"127.0.0.1:808{number}:{settings.broker.web_service_port}"' in text
        assert f'"broker-{number}-state:{volume}"' in text


def test_every_volume_is_declared_and_used() -> None:
    declared = set(re.findall(r"^  ([\w-]+):$", COMPOSE.partition("\nvolumes:\n")[2], re.MULTILINE))
    used = set(re.findall(r'"([\w-]+):/', COMPOSE))
    assert declared == used != set()


def test_the_composition_waits_for_the_longest_stop() -> None:
    (seconds,) = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)
    assert int(seconds) > Settings().session.shutdown_timeout_s


def test_paths_that_the_build_takes_exist_and_are_not_ignored() -> None:
    let_in = {
        line[1:]
        for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied: set[str] = set()
    for arguments in instructions("COPY"):
        if not arguments.startswith("--from"):
            copied.update(arguments.split()[:-1])
    assert copied == let_in
    assert all((ROOT / path).exists() for path in copied)
    for path in re.findall(r"(?:context|dockerfile|env_file): (\S+)", COMPOSE):
        assert (DOCKER / path).exists() or (ROOT / path).exists(), path


def test_the_image_runs_the_daemon_as_an_unprivileged_user() -> None:
    build, final = re.split(
        r"^FROM python:3\.11-slim(?: AS build)?$", DOCKERFILE, flags=re.MULTILINE
    )[1:]
    installs = re.findall(r" install ([^&\n]*)", build.replace("\\\n", " "))
    assert [("--require-hashes" in one, "--no-deps" in one) for one in installs] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    assert "pip" not in final
    (user,) = instructions("USER")
    assert int(user.partition(":")[0]) > 0
    assert instructions("STOPSIGNAL") == ["SIGTERM"]
    (entry,) = instructions("ENTRYPOINT")
    # Exec form: a shell in between would keep the signal to itself.
    assert json.loads(entry) == ["broker-ctl"]


def test_the_health_check_asks_the_port_of_the_settings_and_compiles() -> None:
    health, command = instructions("CMD")
    program, flag, code = json.loads(health)
    assert (program, flag) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    assert f"{ENVIRONMENT_PREFIX}webServicePort" in code
    assert f"or {Settings().broker.web_service_port}" in code
    assert json.loads(command) == ["run"]
