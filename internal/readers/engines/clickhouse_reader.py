"""ClickHouse as a library (chdb). It has one type for text and bytes: columns of bytes are asked for by hex()."""
import os
import re

import chdb
from chdb import session

import asking


class ClickHouse(asking.SQLEngine):
    def __init__(self, task):
        self.task = task
        configuration = os.path.join(task["scratch"], "config.xml")
        with open(configuration, "w") as file:
            file.write(re.search("^-- (<clickhouse>.*)$", task["script"], re.MULTILINE)[1])
        self.session = session.Session(os.path.join(task["scratch"], "server") + "?config-file=" + configuration)
        self.statements = 0
        for statement in asking.statements(task["script"]):
            self.session.query(statement)
            self.statements += 1
        self.about = "ClickHouse " + self.session.query("SELECT version()", "TabSeparated").bytes().decode().strip() + " (chdb " + chdb.__version__ + ")"

    def query(self, text):
        return chdb.to_arrowTable(self.session.query(text, "Arrow"))

    def current(self, dataset):
        return self.query(f"SELECT {columns(dataset)} FROM {self.name(dataset['table'])}")

    def version(self, dataset, commit):
        return self.query(f"SELECT {columns(dataset)} FROM {self.name(dataset['table'])} SETTINGS delta_lake_snapshot_version = {commit}")

    def count(self, dataset):
        address = self.task["s3"]["endpoint"] + "/" + dataset["location"].removeprefix("s3://") + "/"
        return self.query(f"SELECT count() FROM deltaLake('{address}')").column(0)[0].as_py()

    def name(self, table):
        return f"deltaLake({self.task['database']}_{table})"

    def geometry(self, dataset):
        return self.query(
            f"SELECT _ploti_record_id, {dataset['geometry']} FROM (SELECT {columns(dataset)} FROM {self.name(dataset['table'])}) "
            f"WHERE {dataset['geometry']} IS NOT NULL ORDER BY _ploti_record_id LIMIT 1"
        )


def columns(dataset):
    replaced = ", ".join(f"if(isNull({name}), NULL, '0x' || lower(hex({name}))) AS {name}" for name in dataset["binary"] or [])
    return f"* REPLACE ({replaced})" if replaced else "*"


if __name__ == "__main__":
    asking.main(ClickHouse)
    asking.leave()
