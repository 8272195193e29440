"""Judges what helm has rendered: schemas of the API, the golden file, the files that are shared.

python objects.py VALUES RENDERED CRDS KUBERNETES_VERSION; UPDATE=1 writes the golden file.
"""

import difflib
import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

HERE = Path(__file__).parent
DEPLOY = HERE.parents[1]


def shortened(document: dict[str, Any]) -> dict[str, Any]:
    """The object without what comes whole from another file, which `shared` compares."""
    if document["kind"] == "PrometheusRule":
        return document | {"spec": "that of deploy/prometheus/alerts.yml"}
    if document["metadata"]["name"].endswith("-dashboard"):
        return document | {"data": "that of deploy/grafana/broker-ctl.json"}
    return document


def shared(documents: list[dict[str, Any]]) -> None:
    """Alerts and dashboard are those of deploy/."""
    for document in documents:
        if document["kind"] == "PrometheusRule":
            alerts = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
            assert document["spec"] == alerts, "the alerts differ"
        if document["metadata"]["name"].endswith("-dashboard"):
            dashboard = json.loads((DEPLOY / "grafana" / "broker-ctl.json").read_text())
            assert json.loads(document["data"]["broker-ctl.json"]) == dashboard


def validated(document: dict[str, Any], crds: Path, version: str) -> None:
    """By the API's own schema, where no unknown field is allowed."""
    group, _, release = document["apiVersion"].rpartition("/")
    file = crds / f"{group}_{document['kind'].lower()}s.yaml"
    if not file.exists():
        kubernetes_validate.validate(document, version, strict=True)
        return
    versions = yaml.safe_load(file.read_text())["spec"]["versions"]
    (schema,) = [each["schema"]["openAPIV3Schema"] for each in versions if each["name"] == release]
    jsonschema.validate(document, closed(schema))


def closed(schema: Any) -> Any:
    """The schema, with objects that take no other fields than their own; metadata is the API's."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(part) for name, part in schema.items()}
    if isinstance(pattern := found.get("pattern"), str):
        # Go takes flags anywhere, Python only at the start.
        found["pattern"] = pattern.replace("^(?i)", "(?i)^")
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["additionalProperties"] = False
        if isinstance(found["properties"].get("metadata"), dict):
            found["properties"]["metadata"] = {"type": "object"}
    return found


def main(values: str, rendered: str, crds: str, version: str) -> None:
    """Judge one set of values."""
    texts = list(yaml.safe_load_all(Path(rendered).read_text()))
    documents = [document for document in texts if document]
    for document in documents:
        validated(document, Path(crds), version)
        print(f"valid: {document['kind']} {document['metadata']['name']}")
    shared(documents)
    now = yaml.safe_dump_all(map(shortened, documents), sort_keys=False, width=120)
    golden = HERE / "golden" / f"{Path(values).stem}.yaml"
    if os.environ.get("UPDATE"):
        golden.write_text(now)
    was = golden.read_text()
    if now != was:
        sys.stdout.writelines(
            difflib.unified_diff(
                was.splitlines(keepends=True), now.splitlines(keepends=True), "golden", "rendered"
            )
        )
        sys.exit(
            "the objects differ from the golden file; if they should: UPDATE=1 deploy/tests/chart"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
