"""The restart command: stops a daemon, which its supervisor starts again.

python -m tests.chaos.rollouts.stop DIRECTORY PORT
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

directory, port = sys.argv[1:]
with suppress(ProcessLookupError):
    os.kill(int(Path(directory, port).read_text(encoding="utf-8")), signal.SIGTERM)
