"""``broker-ctl cluster-key``."""

import json
import stat
from pathlib import Path

from click.testing import CliRunner

from broker_ctl.cli.cluster_key import command
from broker_ctl.security.cluster_key import ClusterKeys


def test_a_created_key_is_random_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for file in (one, other):
        done = CliRunner().invoke(command, ["create", str(file), "--output", "json"])
        assert (done.exit_code, json.loads(done.stdout)) == (0, {"file": str(file)})
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text(encoding="utf-8").strip() not in done.output
        ClusterKeys.parse(file.read_text(encoding="utf-8"))
    assert one.read_bytes() != other.read_bytes()


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("in use", encoding="utf-8")
    done = CliRunner().invoke(command, ["create", str(file)])
    assert done.exit_code == 1
    assert "File exists" in done.output
    assert file.read_text(encoding="utf-8") == "in use"
