"""Code of other packages: an override in ZooKeeper loads only what the configuration names."""

import sys
from pathlib import Path

import pytest

from broker_ctl.errors import SettingsError
from broker_ctl.settings import strategies
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load, with_dynamic

SHEDDING, PLACEMENT = "loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy"
LOADED = "acme_installed"
SOURCE = """
class Acme:
    def recall(self, *_): ...
    observe = shed = select = recall
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is on the machine, for whatever reason."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"{LOADED}.py").write_text(SOURCE, encoding="ascii")
    info = tmp_path / f"{LOADED}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {LOADED}\nVersion: 1.0\n")
    groups = [f"[broker_ctl.{kind}]\nAcme{kind} = {LOADED}:Acme\n" for kind in KINDS]
    (info / "entry_points.txt").write_text("\n".join(groups))
    monkeypatch.delitem(sys.modules, LOADED, raising=False)
    strategies._loaded.cache_clear()


KINDS = {"shedding": SHEDDING, "placement": PLACEMENT}


@pytest.mark.parametrize("kind", KINDS)
def test_a_dynamic_override_loads_no_other_code(kind: str) -> None:
    override = {KINDS[kind]: f"com.acme.Acme{kind}"}
    settings, problems = with_dynamic(Settings(), override)
    assert [problem.key for problem in problems] == [KINDS[kind]]
    assert "is not in allowedPlugins" in str(problems[0])
    assert settings == Settings()
    assert LOADED not in sys.modules
    allowed = load(None, {}, [f"allowedPlugins=Other,Acme{kind}"])
    assert with_dynamic(allowed, override)[1] == ()
    assert LOADED in sys.modules


@pytest.mark.parametrize("kind", KINDS)
def test_where_plugins_are_listed_the_configuration_itself_loads_no_other(
    kind: str, tmp_path: Path
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"{KINDS[kind]}=Acme{kind}\n")
    with pytest.raises(SettingsError, match=r"broker\.conf:1.* is not in allowedPlugins"):
        load(file, {"BROKER_CTL_allowedPlugins": "Other"}, [])
    assert LOADED not in sys.modules
    load(file, {"BROKER_CTL_allowedPlugins": "Other"}, [f"allowedPlugins=Acme{kind}"])
    assert LOADED in sys.modules


def test_what_the_configuration_names_may_be_named_again_at_run_time() -> None:
    start = load(None, {}, [f"{SHEDDING}=Acmeshedding,ThresholdShedder"])
    assert with_dynamic(start, {SHEDDING: "Acmeshedding"})[1] == ()
    assert with_dynamic(start, {PLACEMENT: "Acmeplacement"})[1] != ()
