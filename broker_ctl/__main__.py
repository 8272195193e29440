"""``python -m broker_ctl``: the same as ``broker-ctl``."""

from broker_ctl.cli.main import main

if __name__ == "__main__":
    main()
