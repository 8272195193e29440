"""The file of a support bundle is its owner's from the first moment."""

import os
import stat
from pathlib import Path

import pytest

from broker_ctl.cli.diagnosis import BundleFile, Redaction


def test_a_bundle_is_its_owner_s_from_the_moment_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opens it before its mode is set reads all that is written later."""
    made: list[int] = []
    path = tmp_path / "bundle.tar.gz"
    plain = os.fdopen

    def opened(descriptor: int, mode: str) -> object:
        made.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return plain(descriptor, mode)

    monkeypatch.setattr(os, "fdopen", opened)
    before = os.umask(0)
    try:
        bundle = BundleFile("top", 0, Redaction())
        bundle.add("name", "text")
        bundle.write(path)
    finally:
        os.umask(before)
    assert made == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        bundle.write(path)
