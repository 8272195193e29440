"""``/openapi.json`` beside what real brokers answered on the paths that are Pulsar's.

`python -m tests.pulsar.record_shapes` has made the recordings. What a client of Pulsar sends is in
the document, and so is what it gets; `DEPARTURES` lists where a daemon answers otherwise.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator

from tests.api.openapi.test_document import DOCUMENT, OPERATIONS
from tests.pulsar.record import RECORDED

FILES: Final = sorted(RECORDED.glob("shapes-*.json"))
_BUNDLE: Final = "/admin/v2/{domain}/{tenant}/{namespace}/{bundle}"
_ISOLATED: Final = "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies/brokers"
DEPARTURES: Final[Mapping[str, str]] = {
    "DELETE /admin/v2/resource-quotas: has no 405": "the default quota can be reset",
    f"GET {_BUNDLE}: has no 204": "topics of a bundle that nobody owns: an empty list",
    f"GET {_ISOLATED}: has no 412": "a cluster that is not there is 404 on all paths",
    "GET /admin/v2/brokers/backlog-quota-check: has no 204": "there is no backlog here: 501",
}


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def faults(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    whole = {**schema, "components": DOCUMENT["components"]}
    for error in Draft202012Validator(whole).iter_errors(value):
        yield f"{error.json_path}: {error.message}"


def schema_of(content: Mapping[str, Any]) -> Mapping[str, Any]:
    (media,) = content.values()
    found: Mapping[str, Any] = media["schema"]
    return found


def departures(row: Mapping[str, Any]) -> Iterator[str]:
    """How the document differs from this request and its answer."""
    operation = OPERATIONS[f"{row['method']} {row['template']}"]
    status = row["status"]
    if "body" in row and status < 300:
        if "requestBody" not in operation:
            yield "takes no body"
        else:
            for fault in faults(schema_of(operation["requestBody"]["content"]), row["body"]):
                yield f"refuses the body: {fault}"
    # What clients show of an error.
    if status >= 400 and row["type"] == "application/json" and "reason" not in row["answer"]:
        yield f"{status} without a reason"
    response = operation["responses"].get(str(status))
    if response is None:
        yield f"has no {status}"
    elif status == 200 and "answer" in row:
        if "content" not in response:
            yield "answers 200 without a body"
        else:
            for fault in faults(schema_of(response["content"]), row["answer"]):
                yield f"answers otherwise: {fault}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_pulsar_takes_and_answers_is_in_the_document(path: Path) -> None:
    found = {
        f"{row['method']} {row['template']}: {departure}"
        for row in rows(path)
        for departure in departures(row)
    }
    assert found == set(DEPARTURES)


def test_an_answer_a_body_and_a_status_that_differ_are_found() -> None:
    tenant = {"method": "PUT", "template": "/admin/v2/tenants/{tenant}", "type": "", "status": 204}
    assert list(departures({**tenant, "body": {"allowedClusters": ["a"]}})) == []
    assert [*departures({**tenant, "body": {"allowedClusters": "a"}})] != []
    assert [*departures({**tenant, "status": 418})] == ["has no 418"]
    bundles = "/admin/v2/namespaces/{tenant}/{namespace}/bundles"
    answered = {"method": "GET", "template": bundles, "type": "", "status": 200}
    assert [*departures({**answered, "answer": {"boundaries": []}})] != []
    error = {**answered, "status": 404, "type": "application/json", "answer": {"error": "x"}}
    assert [*departures(error)] == ["404 without a reason"]


def test_the_recordings_are_of_both_releases_and_ask_most_of_pulsars_paths() -> None:
    assert [path.stem for path in FILES] == ["shapes-4.0.8", "shapes-5.0.1"]
    for path in FILES:
        asked = {f"{row['method']} {row['template']}" for row in rows(path)}
        assert len(asked) >= 65
        assert sum(row["status"] < 300 for row in rows(path)) >= 70
