"""PySpark with Delta's libraries, in a small Java VM, on local files. The script of ddl is executed as it stands."""
import json
import os
import pathlib
import sys

import asking

HOME = pathlib.Path(__file__).resolve().parents[3] / ".tools" / "readers" / "jvm"
sys.path.insert(0, str(HOME / "spark"))


class Spark(asking.SQLEngine):
    def __init__(self, task):
        from pyspark.sql import SparkSession

        self.task = task
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # it lives too short for the better compiler
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.jars": ",".join(str(jar) for jar in sorted((HOME / "jars").glob("*.jar"))),
            "spark.local.dir": task["scratch"],
            "spark.sql.warehouse.dir": task["scratch"] + "/warehouse",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.session.timeZone": "UTC",
            # The defaults are for a cluster: they cut a log of a few lines into fifty pieces.
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.shuffle.partitions": "2",
        }
        builder = SparkSession.builder.master("local[2]").appName("readers")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        script = asking.statements(task["script"])
        for statement in script * 2:  # who pastes it again finds the tables there
            self.session.sql(statement)
        self.statements = len(script)
        delta = [jar.stem for jar in (HOME / "jars").glob("delta-spark*.jar")]
        self.about = f"Spark {self.session.version} ({', '.join(delta)})"

    def query(self, text):
        return self.session.sql(text).toArrow()

    def version(self, dataset, commit):
        table = self.name(dataset["table"])
        rows = self.query(f"SELECT * FROM {table} VERSION AS OF {commit}")
        # The script says that the history names the feed's version.
        history = {row.version: row.userMetadata for row in self.session.sql(f"DESCRIBE HISTORY {table}").collect()}
        told = json.loads(history[commit])["ploti_version"]
        if set(rows["_ploti_version"].to_pylist()) != {told}:
            raise ValueError(f"the history of {table} says that commit {commit} is version {told}, its rows say otherwise")
        return rows


if __name__ == "__main__":
    # The Java VM writes to the output that it inherits: answers go where it does not.
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(answers, "w")
    asking.main(Spark)
