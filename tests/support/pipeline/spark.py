"""The Spark session that tests share, until one of them fails."""

import os
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from broker_ctl.pipeline.session import open_session

# The data of a test is tiny, and what costs is the planning.
SMALL: Final = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Compiling a plan takes longer than working it off; so does compiling Spark itself well.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class SharedSpark:
    """One session at a time, in one Java process; a spoilt one is replaced by a new one.

    A test that is ended by its time limit leaves a call to Java half read: the next caller is
    given the rest of that answer, and so on for ever. Nothing can be asked over such a connection,
    not even to stop.
    """

    def __init__(self) -> None:
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        """The one there is, or a new one."""
        if self._session is None:
            self._session = open_session("local[2]", SMALL, os.environ)
        return self._session

    def stop(self) -> None:
        """Stop the session in Spark's own way; it has to be alive."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def kill(self) -> None:
        """Kill the Java process: a thread that waits for its answer goes on."""
        gateway = SparkContext._gateway
        if self._session is not None and gateway is not None:
            gateway.proc.kill()

    def discard(self) -> None:
        """End the Java process, and let pyspark forget that there was one."""
        self.kill()
        gateway = SparkContext._gateway
        if self._session is None or gateway is None:
            return
        gateway.proc.stdin.close()
        gateway.proc.wait()
        context, self._session = self._session.sparkContext, None
        context._jsc = None
        context.stop()
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
