"""Settings that daemons are built of, with the files that they name."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.support.daemon.wired_settings import SECRETS


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all: what is built twice differs in no path."""
    directory = tmp_path_factory.mktemp("secrets")
    (directory / "account").mkdir()
    for name, text in SECRETS.items():
        (directory / name).write_text(text, encoding="ascii")
        (directory / name).chmod(0o600)
    return directory


@pytest.fixture
def load_here(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """Settings with a store, and with the secrets of the table in the working directory."""
    monkeypatch.chdir(secrets)
    # The key of the tests is in the repository, for all to read.
    monkeypatch.setattr(logging.getLogger("broker_ctl"), "propagate", False)

    def load_here(*overrides: str) -> Settings:
        return load(None, {}, ["metadataStoreUrl=h", *overrides])

    return load_here
