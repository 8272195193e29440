"""Ends the build where the site would load anything from elsewhere."""

from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.typing import ExtensionMetadata

from docs._ext.offline import of_site


def _check(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and (found := list(of_site(Path(app.outdir)))):
        raise ExtensionError("loaded from elsewhere: " + "; ".join(found))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Called by Sphinx."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True}
