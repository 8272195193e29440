"""Alerts and dashboards ask for what is exported, by name and by label."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_ctl.core.machines.lease import Heartbeat, Lease, LeaseRules
from broker_ctl.instruments.declared import Instruments, exposed_names
from broker_ctl.instruments.kinds import Histogram
from tests.support.rules.families import for_each

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "broker-ctl.json"

# What Prometheus adds to every series, and what prometheus_client says of a process.
EVERYWHERE = {"cluster", "instance", "job"}
NOT_OURS = frozenset({"up", "process_resident_memory_bytes", "process_cpu_seconds_total"})
WORDS = {"and", "or", "unless", "bool", "offset"}
GROUPING = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
# A function has a bracket behind it, a series has none.
SELECTOR = re.compile(r"(?<![\w$])([a-zA-Z_:][\w:]*)\b(?!\s*\()(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
TEMPLATE = re.compile(r"\$labels\.(\w+)")


def labels_of(name: str) -> set[str]:
    """The labels of a series that is exported; KeyError for another."""
    if name in NOT_OURS:
        return EVERYWHERE
    for instrument in Instruments():
        if name in {instrument.name + suffix for suffix in instrument.suffixes}:
            extra = {"histogram": {"le"}, "summary": {"quantile"}}.get(instrument.kind, set())
            return EVERYWHERE | set(instrument.labels) | set(instrument.constants) | extra
    raise KeyError(name)


def series_in(expression: str) -> dict[str, set[str]]:
    """Series that a PromQL expression reads, each with the labels that it asks for."""
    bare = re.sub(r"\[[^\]]*\]", "", GROUPING.sub("", expression))
    found: dict[str, set[str]] = {}
    for name, matchers in SELECTOR.findall(bare):
        if name not in WORDS:
            found.setdefault(name, set()).update(MATCHER.findall(matchers))
    return found


def faults_in(expression: str) -> list[str]:
    """Names and labels in an expression that no daemon exports."""
    series = series_in(expression)
    faults = [f"no series {name}" for name in series if name not in exposed_names() | NOT_OURS]
    if faults or not series:
        return faults or [f"no series in {expression!r}"]
    for name, asked in series.items():
        faults += [f"{name} has no label {label}" for label in asked - labels_of(name)]
    known = set.union(*(labels_of(name) for name in series))
    for _, grouped in GROUPING.findall(expression):
        labels = {label.strip() for label in grouped.split(",")}
        faults += [f"no label {label} to group by" for label in labels - known]
    if expression.count("(") != expression.count(")"):
        faults.append("brackets do not match")
    return faults


def alerts() -> Iterator[tuple[str, str, str]]:
    """Name, expression and annotations of each alert; every expression stands on one line."""
    for text in re.split(r"^\s+- alert: ", ALERTS.read_text(), flags=re.MULTILINE)[1:]:
        name, _, rest = text.partition("\n")
        found = re.search(r"^\s+expr: (.+)$", rest, re.MULTILINE)
        assert found, name
        yield name, found[1], rest


def panels() -> Iterator[tuple[str, str]]:
    """Title and expression of each query of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


@pytest.mark.parametrize(
    ("name", "expression", "rest"), [pytest.param(*a, id=a[0]) for a in alerts()]
)
def test_an_alert_reads_only_exported_metrics(name: str, expression: str, rest: str) -> None:
    assert faults_in(expression) == []
    # A label that an aggregation took away would be an empty word in the message.
    kept = [
        set(re.split(r",\s*", names))
        for kind, names in GROUPING.findall(expression)
        if kind == "by"
    ]
    known = set.union(*(labels_of(series) for series in series_in(expression)))
    assert set(TEMPLATE.findall(rest)) <= (set.intersection(*kept) if kept else known), name


@for_each(("title", "expression"), list(panels()))
def test_a_panel_reads_only_exported_metrics(title: str, expression: str) -> None:
    assert faults_in(expression) == [], title


@pytest.mark.parametrize(
    "metric",
    [
        "kafka_controller_kafkacontroller_activecontrollercount",
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "kafka_server_replicamanager_underreplicatedpartitions",
        "kafka_server_replicamanager_underminisrpartitioncount",
        "kafka_server_replicamanager_offlinereplicacount",
        "broker_ctl_controller_rack_violations",
        "broker_ctl_controller_silent_brokers",
    ],
)
def test_a_metric_of_faulty_partitions_has_an_alert_and_a_panel(metric: str) -> None:
    assert any(metric in series_in(expression) for _, expression, _ in alerts())
    assert any(metric in series_in(expression) for _, expression in panels())


def test_a_cluster_without_replicated_partitions_has_no_alert_for_a_missing_controller() -> None:
    (expression,) = [each for name, each, _ in alerts() if name == "NotOneController"]
    _, is_gated, gate = expression.partition(" and ")
    assert is_gated
    assert "broker_ctl_broker_epoch" in series_in(gate)


def alert(name: str) -> tuple[str, str]:
    """The expression of an alert, and the lines below it."""
    (found,) = [(expression, rest) for each, expression, rest in alerts() if each == name]
    return found


@pytest.mark.parametrize(
    ("timeout_s", "tick_s"), [(30.0, 2.0), (11.25, 2.0), (6.0, 0.5), (3.75, 0.5), (60.0, 2.0)]
)
def test_a_lease_that_is_renewed_on_time_is_never_low_however_short_the_session(
    timeout_s: float, tick_s: float
) -> None:
    expression, rest = alert("LeaseLow")
    (part,) = re.findall(r"broker_ctl_session_timeout_seconds / (\d+)", expression)
    assert re.search(r"^\s+for: \S+$", rest, re.MULTILINE)
    rules = LeaseRules(timeout_s, tick_s)
    rules.check()
    lease, least_s = Lease(rules, 0.0), timeout_s
    for number in range(1, 50):
        now_s = number * rules.period_s
        if number > 5:
            # Just before the next answer it is shortest.
            least_s = min(least_s, lease.remaining_s(now_s))
        lease = lease.acknowledged(Heartbeat(now_s, now_s + 0.01))
    assert least_s > timeout_s / int(part)


def test_each_alert_has_a_runbook_that_says_meaning_sight_and_deed_and_each_runbook_an_alert() -> (
    None
):
    page = (DEPLOY.parent / "docs" / "how-to" / "runbooks.md").read_text(encoding="utf-8")
    entries = dict(re.findall(r"^### (\w+)\n\n((?:(?!#).+\n)+)", page, re.MULTILINE))
    assert list(entries) == [name for name, _, _ in alerts()]
    for name, _, rest in alerts():
        assert f'runbook_url: "docs/how-to/runbooks.md#{name.lower()}"' in rest, name
        labels = re.findall(r"^- \*\*([\w ]+)\*\*: \S", entries[name], re.MULTILINE)
        assert labels == ["Meaning", "Look at", "Do"], name


def test_an_alert_fires_for_a_drain_that_stays() -> None:
    expression, rest = alert("DrainTakesLong")
    assert set(series_in(expression)) == {"broker_ctl_drained_brokers"}
    assert "for: 30m" in rest


@pytest.mark.parametrize(
    "metric",
    [
        *("broker_ctl_drained_brokers", "broker_ctl_paused", "pulsar_lb_bandwidth_out_usage"),
        *("pulsar_bundle_msg_rate_in", "broker_ctl_ownership_lost_total"),
        *("broker_ctl_session_epoch", "broker_ctl_session_timeout_seconds"),
    ],
)
def test_the_dashboard_shows_what_an_operator_asks_for(metric: str) -> None:
    assert any(metric in series_in(expression) for _, expression in panels())


def test_the_dashboard_shows_moves_by_reason_and_imbalance_over_time() -> None:
    shown = json.loads(DASHBOARD.read_text())["panels"]
    (moves,) = [each for each in shown if each["title"] == "Moves by reason"]
    assert "by (reason, result) (increase(broker_ctl_decisions_total" in moves["targets"][0]["expr"]
    (imbalance,) = [each for each in shown if each["title"] == "Imbalance over time"]
    assert imbalance["type"] == "timeseries"


def test_a_slow_instance_is_not_lost_in_a_sum() -> None:
    for title, expression in panels():
        if title.startswith(("Latency by operation", "Round trip")):
            assert "(le, instance, " in expression
            assert 'instance=~"$instance"' in expression


def test_panels_of_the_process_are_those_of_the_chosen_cluster() -> None:
    for _, expression in panels():
        if "process_" in expression:
            assert 'on (instance) broker_ctl_ready{cluster="$cluster"}' in expression


def test_no_two_panels_lie_on_each_other() -> None:
    taken = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                assert (x, y) not in taken, panel["title"]
                taken.add((x, y))


def test_prometheus_asks_all_brokers_of_the_compose_file() -> None:
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    compose = (DEPLOY / "docker" / "compose.yaml").read_text()
    published = set(re.findall(r'ports: \["(127[^"]*):8080"\]', compose))
    assert set(re.findall(r"^ +- (127\S+)$", text, re.MULTILINE)) == published
    assert len(published) == 3


def test_every_alert_says_how_urgent_it_is_and_what_to_do() -> None:
    for name, _, rest in alerts():
        assert re.search(r"severity: (page|ticket)\b", rest), name
        assert "summary: " in rest, name
        assert "description: " in rest, name


def test_prometheus_reads_the_alerts_beside_it() -> None:
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    (rule_file,) = re.findall(r"^rule_files:\n  - (\S+)$", text, re.MULTILINE)
    assert (DEPLOY / "prometheus" / rule_file) == ALERTS


def test_the_dashboard_has_one_identifier_a_panel() -> None:
    shown = json.loads(DASHBOARD.read_text())["panels"]
    identifiers = [panel["id"] for panel in shown]
    assert len(identifiers) == len(set(identifiers)) > 0


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("broker_ctl_redy == 0", "no series broker_ctl_redy"),
        ("rate(broker_ctl_loop_lag_seconds[5m])", "no series broker_ctl_loop_lag_seconds"),
        ('broker_ctl_is_leader{chair="x"}', "broker_ctl_is_leader has no label chair"),
        ("sum by (broker) (broker_ctl_brokers)", "no label broker to group by"),
        ("sum(broker_ctl_brokers", "brackets do not match"),
        ("1 > 2", "no series in '1 > 2'"),
    ],
)
def test_a_wrong_expression_is_found(expression: str, fault: str) -> None:
    assert faults_in(expression) == [fault]


QUANTILE = re.compile(r"^histogram_quantile\(.*?(\w+)_bucket.* > ([\d.]+)$")


def test_the_limit_on_a_quantile_is_within_the_buckets() -> None:
    bounds = {one.name: one.bounds for one in Instruments() if isinstance(one, Histogram)}
    limits = [found for _, expression, _ in alerts() for found in QUANTILE.findall(expression)]
    assert len(limits) == sum("histogram_quantile" in expression for _, expression, _ in alerts())
    for name, limit in limits:
        assert bounds[name][0] < float(limit) < bounds[name][-1], name
