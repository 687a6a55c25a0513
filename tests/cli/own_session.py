"""A job on a Spark session that the program made itself, with whatever Python the environment names for its workers."""

from __future__ import annotations

from pyspark.sql import SparkSession

from beadline.datastream import StreamExecutionEnvironment
from tests.sessions import QUICK_JAVA

if __name__ == "__main__":
    builder = SparkSession.builder.master("local[1]")
    for key, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    builder.getOrCreate()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(1000)
    env.from_collection([1, 2, 3]).map(lambda v: v + 1).print()
    env.execute()
