"""The file of the pipeline's settings."""

from pathlib import Path

import pytest

from broker_ctl.errors import SettingsError
from broker_ctl.pipeline.settings import PipelineSettings, load, render

ROOT = Path(__file__).parents[2]


def test_the_shipped_file_has_every_key_with_its_default() -> None:
    shipped = ROOT / "config" / "pipeline.conf"
    assert shipped.read_text() == render()
    loaded = load(shipped)
    assert loaded.settings == PipelineSettings()
    assert loaded.spark == {}


def test_the_examples_of_the_shipped_file_can_be_taken_as_they_are(tmp_path: Path) -> None:
    shipped = (ROOT / "config" / "pipeline.conf").read_text()
    examples = [line[2:] for line in shipped.splitlines() if line.startswith("# spark.")]
    for number, example in enumerate(examples):
        path = tmp_path / f"{number}.conf"
        path.write_text(f"{example}\n")
        assert len(load(path).spark) == 1
    # A catalog of each kind, and a file system.
    kinds = {each.rpartition("=")[2] for each in examples if ".lake.type=" in each}
    assert kinds == {"hive", "rest", "jdbc"}
    assert any("fs.s3a" in each for each in examples)


def test_values_are_read_and_sparks_own_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.conf"
    path.write_text("profileDays=14\nspark.driver.memory=4g\nprofileMergePercentage=0.5\n")
    loaded = load(path)
    assert (loaded.settings.days, loaded.settings.merge_percent) == (14, 0.5)
    assert loaded.spark == {"spark.driver.memory": "4g"}


def test_every_wrong_line_of_the_settings_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.conf"
    path.write_text("profileDays=0\nprofileDay=7\nweather=fine\n")
    with pytest.raises(SettingsError) as caught:
        load(path)
    days, slip, unknown = str(caught.value).splitlines()[1:] + str(caught.value).splitlines()[:1]
    assert "pipeline.conf:" in days
    assert {line.partition("conf:")[2][0] for line in (days, slip, unknown)} == {"1", "2", "3"}
    assert "profileDay: unknown key; is profileDays meant?" in str(caught.value)
    assert "allowed: an integer of at least 1" in str(caught.value)
