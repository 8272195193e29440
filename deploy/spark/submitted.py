r"""What spark-submit runs: broker-ctl, with the words that follow.

    spark-submit --master spark://spark-master:7077 --py-files broker_ctl.zip \
        deploy/spark/submitted.py pipeline ingest /data/history --tables /data/tables \
        --master spark://spark-master:7077

The master is told to both. For broker_ctl.zip, and for what the workers need, see cluster.conf.
"""  # noqa: INP001  a script beside its settings, and no package

from broker_ctl.cli.main import main

if __name__ == "__main__":
    main()
