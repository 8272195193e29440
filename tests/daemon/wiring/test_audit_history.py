"""Changes and refusals in the history, with and without an audit log."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from broker_ctl.core.history.columns import RowKind
from broker_ctl.core.history.rows import AuditEventRow
from broker_ctl.daemon.wiring.history import audit_recorder
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.security.audit.event import AuditEvent, EventKind
from broker_ctl.security.audit.log import MAX_OF_ADDRESS, AuditLog, AuditRules
from tests.support.daemon.listening_daemon import listening_daemon
from tests.support.pipeline.history_files import lines
from tests.support.time.waiting import PATIENCE_S

CHANGE = AuditEvent(
    kind=EventKind.CHANGE,
    at_ms=7,
    principal="anna",
    operation="PUT",
    target="/x",
    status="204",
    request_id="r1",
    before={"a": 1},
)


class Rows:
    """What was recorded, with its time."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int | None, Any]] = []

    def record_rows(
        self,
        kind: RowKind[Any],
        rows: Iterable[Any],
        *,
        epoch: int | None = None,
        cycle: int | None = None,
        at_ms: int | None = None,
    ) -> None:
        del epoch, cycle
        self.found += [(kind.name, at_ms, row) for row in rows]


@pytest.mark.parametrize("is_written", [True, False])
@in_virtual_time
async def test_changes_and_refusals_are_recorded_and_nothing_else(
    tmp_path: Path, is_written: bool
) -> None:
    rules = AuditRules(tmp_path / "audit.log") if is_written else AuditRules()
    log, rows = AuditLog(rules, "b:1", LoopClock()), Rows()
    log.observe(audit_recorder(rows))
    await log.start()
    log.record(CHANGE)
    for _ in range(MAX_OF_ADDRESS + 4):
        log.record(AuditEvent(kind=EventKind.REFUSAL, at_ms=8, address="a", status="401"))
    await log.close()
    (name, at_ms, first), *refused = rows.found
    assert (name, at_ms) == ("audit_events", 7)
    assert first == AuditEventRow(
        "change", "anna", "", "", "", "PUT", "", "/x", "204", "", "r1", requests=1
    )
    total = sum(row.requests for _, _, row in refused)
    assert total == MAX_OF_ADDRESS + (4 if is_written else 0)
    assert (tmp_path / "audit.log").exists() is is_written


async def test_a_daemon_with_a_history_records_its_requests(tmp_path: Path) -> None:
    directory = tmp_path / "history"
    async with (
        listening_daemon(f"loadHistoryDirectory={directory}") as (_, ports),
        HttpClient(timeout_s=PATIENCE_S, max_body_bytes=1 << 20) as http,
    ):
        url = f"http://127.0.0.1:{ports['webServicePort']}/admin/v2/tenants/shop"
        assert (await http.request("PUT", url, json={"allowedClusters": []})).status >= 200
    assert written(directory) == [("PUT", "/admin/v2/tenants/shop")]


def written(directory: Path) -> list[tuple[str, str]]:
    """Operation and target of the rows in all segments."""
    found = [line for line in lines(directory) if line.stamp.kind == "audit_events"]
    return [(row.operation, row.target) for line in found for row in line.rows]
