r"""The script for spark-submit: it runs broker-ctl with the arguments that follow.

    spark-submit --master spark://spark-master:7077 --py-files broker_ctl.zip \
        deploy/spark/submitted.py pipeline ingest /data/history --tables /data/tables \
        --master spark://spark-master:7077

Both spark-submit and broker-ctl need the master. For broker_ctl.zip, and for the packages of the
workers, see cluster.conf.
"""  # noqa: INP001  a script beside its settings, and no package

from broker_ctl.cli.main import main

if __name__ == "__main__":
    main()
