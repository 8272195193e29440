"""Drives one target with atheris: ``python -m tests.fuzz.drive TARGET [libFuzzer's options]``."""

import sys

import atheris

# Only what is imported in here is watched for new ways through it.
with atheris.instrument_imports(include=["broker_ctl", "aiozk.protocol"]):
    from tests.fuzz.targets.catalog import TARGETS

if __name__ == "__main__":
    program, name, *options = sys.argv
    # One slow input is a finding, too; the machine may be busy.
    bounds = ("-max_len=2048", "-timeout=20", "-rss_limit_mb=2048")
    atheris.Setup([program, *bounds, *options], TARGETS[name])
    atheris.Fuzz()
