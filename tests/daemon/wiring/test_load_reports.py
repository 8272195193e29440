"""What this broker says of itself in its load report, by its settings."""

import json
from typing import Any

import pytest

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import BrokerLoad
from broker_ctl.core.strategies.load_managers import MODULAR, SIMPLE
from broker_ctl.daemon.wiring.dataplanes import report_form
from broker_ctl.settings.sources import read

MANAGERS = [MODULAR.class_name, SIMPLE.class_name]


def reported(*overrides: str) -> dict[str, Any]:
    reading = read(None, {}, list(overrides))
    assert reading.problems == ()
    report = report_form(reading.settings)(BrokerUrls("b:1"), BrokerLoad("b:1"), (), ())
    found: dict[str, Any] = json.loads(report.encode())
    return found


@pytest.mark.parametrize("manager", MANAGERS)
def test_kinds_of_topics_and_protocols_are_reported_as_they_are_set(manager: str) -> None:
    kept = reported(
        f"loadManagerClassName={manager}",
        "enablePersistentTopics=false",
        "enableNonPersistentTopics=true",
        "advertisedProtocols=kafka=PLAINTEXT://host:9092,mqtt=mqtt://host:1883?a=b",
    )
    assert kept["persistentTopicsEnabled"] is False
    assert kept["nonPersistentTopicsEnabled"] is True
    assert kept["protocols"] == {
        "kafka": "PLAINTEXT://host:9092",
        "mqtt": "mqtt://host:1883?a=b",
    }
    other = reported(f"loadManagerClassName={manager}", "enableNonPersistentTopics=false")
    assert (other["persistentTopicsEnabled"], other["nonPersistentTopicsEnabled"]) == (True, False)


@pytest.mark.parametrize("manager", MANAGERS)
def test_by_default_all_topics_are_served_and_no_protocol_is_handled(manager: str) -> None:
    found = reported(f"loadManagerClassName={manager}")
    assert (found["persistentTopicsEnabled"], found["nonPersistentTopicsEnabled"]) == (True, True)
    assert found["protocols"] == {}
