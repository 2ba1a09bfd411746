"""PySpark with Delta's libraries, in a small Java VM, on local files. The script of ddl is executed as it stands."""
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
        return self.query(f"SELECT * FROM {self.name(dataset['table'])} VERSION AS OF {commit}")


if __name__ == "__main__":
    # The Java VM writes to the output that it inherits: answers go where it does not.
    answers = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(answers, "w")
    asking.main(Spark)
