"""``broker-ctl dashboards export``: alerts and dashboard, as they are in deploy/."""

from pathlib import Path

from click.testing import CliRunner

from broker_ctl.cli.main import main

DEPLOY = Path(__file__).parents[3] / "deploy"
WRITTEN = ("prometheus/alerts.yml", "prometheus/prometheus.yml", "grafana/broker-ctl.json")


def test_the_files_of_the_release_are_written_and_others_kept(tmp_path: Path) -> None:
    words = ["dashboards", "export", str(tmp_path / "out")]
    assert CliRunner().invoke(main, [*words, "--dry-run"]).exit_code == 0
    assert list(tmp_path.iterdir()) == []
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    for name in WRITTEN:
        written = tmp_path / "out" / Path(name).name
        assert written.read_bytes() == (DEPLOY / name).read_bytes()
    written.write_text("edited")
    refused = CliRunner().invoke(main, words)
    assert (refused.exit_code, written.read_text()) == (1, "edited")
    assert CliRunner().invoke(main, [*words, "--force"]).exit_code == 0
    assert written.read_text() != "edited"


def test_the_runbooks_of_the_alerts_are_where_the_operator_has_them(tmp_path: Path) -> None:
    words = ["dashboards", "export", str(tmp_path / "out"), "--runbooks"]
    url = "https://docs.example.com/runbooks.html"
    assert CliRunner().invoke(main, [*words, url]).exit_code == 0
    text = (tmp_path / "out" / "alerts.yml").read_text()
    assert f'runbook_url: "{url}#brokerdown"' in text
    assert "docs/how-to/runbooks" not in text
    for wrong in ("docs", 'https://a/"\n- alert: x', "https://a/?b", "javascript:1"):
        assert CliRunner().invoke(main, [*words, wrong, "--force"]).exit_code == 2
