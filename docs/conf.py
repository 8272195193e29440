"""Settings of the documentation's build: ``sphinx-build -W --keep-going -n docs docs/_build``."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

# The extensions are imported by the names that the tests use, too.
sys.path.insert(0, str(Path(__file__).parents[1]))

project = "broker-ctl"
author = "the authors of broker-ctl"
copyright = author
version = release = version_of("broker-ctl")

extensions = [
    "myst_parser",
    "docs._ext.floors_picture",
    "docs._ext.generated",
    "docs._ext.offline_site",
    "docs._ext.sequence",
    "docs._ext.state_table",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_ext"]
nitpicky = True

# Two dashes before an option stay two.
smartquotes = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
# Every heading of the first three levels can be linked to, as on a forge.
myst_heading_anchors = 3

html_theme = "furo"
html_title = "broker-ctl"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_sphinx = False
