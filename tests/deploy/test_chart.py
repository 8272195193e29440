"""The Helm chart: what it shares with deploy/ is shared, and its settings are ones of daemons.

`deploy/tests/chart` renders it; what is looked at here are the golden files of that.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker_ctl.instruments.balancing import AdviceInstruments
from broker_ctl.settings.sources import read
from broker_ctl.settings.startable import start_problems

ROOT = Path(__file__).parents[2]
HELM = ROOT / "deploy" / "helm"
CHART = HELM / "broker-ctl"
CASES = sorted(path.stem for path in (HELM / "tests" / "golden").glob("*.yaml"))


def objects(case: str) -> Iterator[dict[str, Any]]:
    text = (HELM / "tests" / "golden" / f"{case}.yaml").read_text(encoding="utf-8")
    yield from yaml.safe_load_all(text)


def object_of(case: str, kind: str) -> dict[str, Any]:
    return next(each for each in objects(case) if each["kind"] == kind)


def pods(case: str) -> dict[str, Any]:
    kinds = ("StatefulSet", "Deployment")
    workload = next(each for each in objects(case) if each["kind"] in kinds)
    found: dict[str, Any] = workload["spec"]["template"]["spec"]
    return found


def test_every_case_has_a_golden_file() -> None:
    assert sorted(path.stem for path in (HELM / "tests").glob("*.yaml")) == CASES
    assert len(CASES) == 6


def test_alerts_and_dashboard_are_those_of_deploy() -> None:
    shared = {
        "alerts.yml": ROOT / "deploy" / "prometheus" / "alerts.yml",
        "broker-ctl.json": ROOT / "deploy" / "grafana" / "broker-ctl.json",
    }
    files = sorted((CHART / "files").iterdir())
    assert {file.name: file.resolve() for file in files} == shared
    assert all(file.is_symlink() for file in files)


def test_the_chart_is_of_this_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    release = project["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (str(chart["appVersion"]), str(chart["version"])) == (release, release)


def test_every_value_is_in_the_schema_and_the_other_way_round() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    # Helm gives it to every chart.
    assert schema["properties"].keys() - {"global"} == values.keys()
    for name, part in schema["properties"].items():
        if "properties" in part:
            assert part["properties"].keys() == values[name].keys(), name
            assert part["additionalProperties"] is False, name


@pytest.mark.parametrize("case", CASES)
def test_a_daemon_starts_with_the_settings(case: str, tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(object_of(case, "ConfigMap")["data"]["broker.conf"], encoding="utf-8")
    daemon = pods(case)["containers"][0]
    environment = {
        each["name"]: each["value"].replace("$(POD_NAME)", "prod-broker-ctl-0")
        for each in daemon["env"]
        if "value" in each
    }
    reading = read(file, environment, [])
    assert [*reading.problems, *reading.unknown, *reading.unused] == []
    assert start_problems(reading) == ()
    settings = reading.settings
    (port,) = [each["containerPort"] for each in daemon["ports"]]
    assert port in {settings.broker.web_service_port, settings.broker.web_service_port_tls}
    mounted = [each["mountPath"] for each in daemon["volumeMounts"]]
    for line in file.read_text(encoding="utf-8").splitlines():
        path = line.partition("=")[2]
        if path.startswith("/"):
            assert any(path.startswith(f"{mount}/") for mount in mounted), line
    # The daemon may use all of the handover before it is killed.
    assert pods(case)["terminationGracePeriodSeconds"] > settings.session.shutdown_timeout_s or (
        case.startswith("attach")
    )


@pytest.mark.parametrize("case", CASES)
def test_a_daemon_has_no_rights(case: str) -> None:
    spec = pods(case)
    own = {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        # Where the platform chooses them, as OpenShift does, none is named.
        **({} if case == "attach-admin" else own),
    }
    assert spec["automountServiceAccountToken"] is (case == "attach-admin")
    for container in spec["containers"]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
    assert spec["containers"][0]["resources"]["limits"].keys() == {"memory"}
    for volume in spec["volumes"]:
        assert volume.get("emptyDir", {"sizeLimit": ""}).keys() >= {"sizeLimit"}, volume
    writable = {
        each["mountPath"]
        for each in spec["containers"][0]["volumeMounts"]
        if not each.get("readOnly")
    }
    assert writable <= {"/var/lib/broker-ctl", "/tmp", "/lifecycle"}


@pytest.mark.parametrize("case", CASES)
def test_tokens_cross_the_network_of_the_pods_over_tls_unless_that_is_permitted(case: str) -> None:
    values = yaml.safe_load((HELM / "tests" / f"{case}.yaml").read_text(encoding="utf-8"))
    conf = object_of(case, "ConfigMap")["data"]["broker.conf"].splitlines()
    is_clear = values["tls"].get("allowCleartext", False)
    assert ("allowCleartextCredentials=true" in conf) is is_clear
    assert ("webServicePort=" in conf) is not is_clear
    assert ("webServicePortTls=8443" in conf) is not is_clear
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert defaults["tls"] == {"existingSecret": "", "allowCleartext": False}


def test_an_image_is_named_by_its_digest_where_one_is_given() -> None:
    for case in CASES:
        values = yaml.safe_load((HELM / "tests" / f"{case}.yaml").read_text(encoding="utf-8"))
        digest = values.get("image", {}).get("digest", "")
        image = pods(case)["containers"][0]["image"]
        assert image.partition("@")[2] == digest
    assert "@sha256:" in pods("beside")["containers"][0]["image"]


def test_without_zookeeper_the_account_may_change_its_two_objects_only() -> None:
    conf = object_of("attach-admin", "ConfigMap")
    (name,) = re.findall(
        r"^pulsarStateUrl=kubernetes:(.*)$", conf["data"]["broker.conf"], re.MULTILINE
    )
    # That of the settings is another one.
    assert name != conf["metadata"]["name"]
    rights = {
        (group, resource, verb, object_name)
        for rule in object_of("attach-admin", "Role")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for object_name in rule.get("resourceNames", ["*"])
    }
    objects_of_state = {("coordination.k8s.io", "leases"), ("", "configmaps")}
    assert rights == {(*each, "create", "*") for each in objects_of_state} | {
        (*each, verb, name) for each in objects_of_state for verb in ("get", "update")
    }
    account = pods("attach-admin")["serviceAccountName"]
    (subject,) = object_of("attach-admin", "RoleBinding")["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", account)


@pytest.mark.parametrize("case", CASES)
def test_no_account_has_a_right_to_a_secret(case: str) -> None:
    kinds = {each["kind"] for each in objects(case)}
    assert not kinds & {"ClusterRole", "ClusterRoleBinding", "Secret"}
    for each in objects(case):
        for rule in each.get("rules", ()):
            assert set(rule["resources"]) <= {"leases", "configmaps", "pods", "statefulsets"}
            assert "*" not in [*rule["resources"], *rule["verbs"], *rule["apiGroups"]]


def test_the_account_of_rollouts_deletes_pods_of_its_set_only() -> None:
    (role,) = [each for each in objects("beside") if each["kind"] == "Role"]
    deleting = [rule for rule in role["rules"] if "delete" in rule["verbs"]]
    pods_of_set = {f"prod-broker-ctl-{number}" for number in range(3)}
    assert [set(rule["resourceNames"]) for rule in deleting] == [pods_of_set]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "delete"}


def test_the_broker_process_outlives_the_drain() -> None:
    daemon, broker = pods("beside")["containers"]
    drain = daemon["lifecycle"]["preStop"]["exec"]["command"][-1]
    wait = broker["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert "broker-ctl drain --self --until-restart --wait --yes" in drain
    assert "touch /lifecycle/drained" in drain
    # The leader drains, which may be in another pod.
    environment = {each["name"]: each.get("value") for each in daemon["env"]}
    own = environment["BROKER_CTL_advertisedAddress"].replace("$(POD_NAME)", "")
    assert environment["BROKER_CTL_TRUSTED_HOSTS"] == own
    assert environment["BROKER_CTL_TOKEN_FILE"] == "/etc/broker-ctl/auth/tokens"
    assert environment["BROKER_CTL_URL"].startswith("https://127.0.0.1:")
    assert environment["BROKER_CTL_TLS_CA"]
    assert "[ -e /lifecycle/drained ]" in wait
    (drain_s,) = map(int, re.findall(r"timeout (\d+) ", drain))
    (wait_s,) = map(int, re.findall(r"left=(\d+);", wait))
    handover_s = read(None, {}, []).settings.session.shutdown_timeout_s
    assert drain_s < wait_s == drain_s + handover_s
    assert wait_s < pods("beside")["terminationGracePeriodSeconds"]


def test_the_alerts_find_the_job_of_the_monitor() -> None:
    monitor = object_of("beside", "ServiceMonitor")["spec"]
    services = [each for each in objects("beside") if each["kind"] == "Service"]
    scraped = [
        each
        for each in services
        if monitor["selector"]["matchLabels"].items() <= each["metadata"]["labels"].items()
    ]
    # The headless service has the same pods: one of the two is scraped.
    assert [each["metadata"]["name"] for each in scraped] == ["prod-broker-ctl-http"]
    job = scraped[0]["metadata"]["labels"][monitor["jobLabel"]]
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    assert set(re.findall(r'up\{job="([^"]+)"\}', alerts)) == {job}


@pytest.mark.parametrize(
    ("case", "kind"), [("hpa", "HorizontalPodAutoscaler"), ("keda", "ScaledObject")]
)
def test_an_autoscaler_follows_the_advice_and_lets_one_broker_go_at_a_time(
    case: str, kind: str
) -> None:
    scaled = object_of(case, kind)["spec"]
    workload = object_of(case, "StatefulSet")
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": workload["metadata"]["name"]}
    assert scaled["scaleTargetRef"] == target
    # A number of the chart's would undo the autoscaler's with each upgrade.
    assert "replicas" not in workload["spec"]
    if case == "hpa":
        (metric,) = scaled["metrics"]
        asked, each = metric["external"]["metric"]["name"], metric["external"]["target"]
        assert each == {"type": "AverageValue", "averageValue": "1"}
        behavior = scaled["behavior"]
    else:
        (trigger,) = scaled["triggers"]
        asked, each = trigger["metadata"]["query"], trigger["metricType"]
        assert (each, trigger["metadata"]["threshold"]) == ("AverageValue", "1")
        # Without a leader there is no advice: that is not one of no brokers.
        assert asked.endswith("> 0)")
        assert trigger["metadata"]["ignoreNullValues"] == "false"
        behavior = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert AdviceInstruments().recommended_brokers.name in asked
    assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 0
    down = behavior["scaleDown"]
    assert down["stabilizationWindowSeconds"] >= 1800
    (policy,) = down["policies"]
    assert (policy["type"], policy["value"]) == ("Pods", 1)
    # The next one goes when the one before has been drained.
    assert policy["periodSeconds"] > pods(case)["terminationGracePeriodSeconds"]


def test_without_an_autoscaler_the_number_is_the_chart_s() -> None:
    assert object_of("minimal", "StatefulSet")["spec"]["replicas"] == 1
