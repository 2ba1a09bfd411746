"""DuckDB with the delta extension, and httpfs and aws for S3."""
import importlib
import os

import duckdb

import asking


class DuckDB(asking.SQLEngine):
    def __init__(self, task):
        self.task = task
        self.connection = duckdb.connect(config={"extension_directory": os.path.join(task["scratch"], "extensions")})
        # The extensions' packages stand in for the download that INSTALL would make.
        for name in ["delta", "httpfs", "aws"]:
            package = importlib.import_module("duckdb_extension_" + name)
            path = os.path.join(os.path.dirname(package.__file__), "extensions", "v" + duckdb.__version__, name + ".duckdb_extension")
            self.connection.execute(f"INSTALL '{path}'")
        self.statements = 0
        for statement in self.connection.extract_statements(task["script"]):
            self.connection.execute(statement)
            self.statements += 1
        self.about = "DuckDB " + duckdb.__version__

    def query(self, text):
        return self.connection.execute(text).to_arrow_table()

    def version(self, dataset, commit):
        return self.query(f"SELECT * FROM delta_scan('{self.location(dataset)}', version => {commit})")

    def count(self, dataset):
        return self.connection.execute(f"SELECT count(*) FROM delta_scan('{self.location(dataset)}')").fetchone()[0]

    def location(self, dataset):
        return dataset["location"] if self.task["s3"] else "file://" + dataset["location"]


if __name__ == "__main__":
    asking.main(DuckDB)
    asking.leave()
