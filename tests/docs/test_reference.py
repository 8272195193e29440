"""The reference has all that the program has."""

import ast
import inspect
from pathlib import Path
from typing import Final

import click
import pytest

import broker_ctl
from broker_ctl.cli.main import VERBS
from broker_ctl.daemon.lifecycle import exits
from broker_ctl.instruments.declared import Instruments
from broker_ctl.instruments.kinds import Gauge
from broker_ctl.settings.root import DECLARATIONS
from docs._ext import reference_commands, reference_http, reference_metrics, reference_settings
from docs._ext.markdown import escape, table
from docs._ext.reference import PAGES

PACKAGE: Final = Path(broker_ctl.__file__).parent
REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_each_part_has_its_page(name: str) -> None:
    assert f"```{{generated}} {name}\n```\n" in (REFERENCE / f"{name}.md").read_text()


def test_every_setting_is_explained() -> None:
    page = reference_settings.page()
    keys = (PACKAGE.parent / "config" / "broker.conf").read_text().splitlines()
    keys = [line.partition("=")[0] for line in keys if line and not line.startswith("#")]
    assert len(keys) > 150
    for key in keys:
        assert f"({reference_settings.anchor(key)})=\n### `{key}`\n" in page
        assert escape(DECLARATIONS[key].setting.sentence) in page


def test_a_setting_says_default_range_unit_and_conditions() -> None:
    page = reference_settings.page()
    _, _, entry = page.partition("### `metadataStoreSessionTimeoutMillis`")
    entry = entry.partition("\n###")[0]
    assert "Default: `30000`" in entry
    assert "Unit: ms" in entry
    assert "Dynamic: no" in entry
    assert "`zooKeeperSessionTimeoutMillis`" in entry


def test_every_verb_is_there_with_its_options() -> None:
    page = reference_commands.page()
    shown = {ctx.command_path: ctx for ctx in reference_commands.commands()}
    assert len(VERBS) >= 30
    assert {f"broker-ctl {verb}" for verb in VERBS} <= shown.keys()
    assert len(shown) > len(VERBS) + 20
    for path, ctx in shown.items():
        assert f"({reference_commands.anchor(ctx)})=\n" in page
        assert f"```text\n{path}" in page
        entry = page.partition(f"({reference_commands.anchor(ctx)})=\n")[2].partition("\n(comm")[0]
        for option in ctx.command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in entry, (path, option.opts)


def test_examples_keep_their_lines() -> None:
    example = "broker-ctl config check broker.conf\nbroker-ctl status --cluster"
    assert f"{example}" in reference_commands.page()


def test_every_metric_is_there_with_kind_labels_unit_and_help() -> None:
    page = reference_metrics.page()
    for one in Instruments():
        kind = "counter" if one.name.endswith("_total") else one.kind
        entry = page.partition(f"`{one.name}`\n")[2].partition("\n`")[0]
        assert escape(one.help) in entry
        assert f": {kind}" in entry
        assert all(f"`{label}`" in entry for label in one.labels)
    assert any(isinstance(one, Gauge) for one in Instruments())


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("pulsar_metadata_store_ops_latency_ms", "ms"),
        ("broker_ctl_revalidation_seconds", "s"),
        ("pulsar_metadata_store_put_bytes_total", "bytes"),
        ("broker_ctl_replica_throttle_bytes_per_second", "bytes/s"),
        ("broker_ctl_brokers", ""),
    ],
)
def test_a_metric_s_name_ends_in_its_unit(name: str, unit: str) -> None:
    assert reference_metrics.unit_of(name) == unit


def test_every_route_is_there() -> None:
    page = reference_http.page()
    routes = [*reference_http.routes(), *reference_http.attached_routes()]
    for route in routes:
        assert f"`{route.method} {reference_http.readable(route.path)}`\n: " in page
    serving = {inspect.unwrap(route.handler).__qualname__.partition(".")[0] for route in routes}
    written = {
        node.name
        for room in ("api", "attach", "console")
        for file in (PACKAGE / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Routes")
    }
    assert len(written) > 20
    assert written - serving == set()


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}", "`authoritative`"),
        ("/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}", "`listenerName`"),
        ("/admin/v2/tenants/{tenant}", "`dry_run`"),
        # Asked for in a function of the same module that the handler calls.
        ("/control/v1/history", "`since_ms`"),
    ],
)
def test_a_route_names_its_query_parameters(path: str, parameters: str) -> None:
    entries = reference_http.page().split("\n`")
    assert any(f" {path}`\n" in entry and parameters in entry for entry in entries)


def test_every_exit_code_is_there() -> None:
    page = PAGES["exit-codes"]()
    codes = [value for name, value in vars(exits).items() if name.isupper()]
    assert len(codes) > 5
    assert all(f"| `{code}` | " in page for code in codes)


def test_text_is_shown_as_it_is_written() -> None:
    assert escape("a*b <c> ``d_e`` [f]") == "a\\*b \\<c\\> `d_e` \\[f\\]"
    assert table(["A"], [["b\nc"]]) == "| A |\n| --- |\n| b c |\n"
