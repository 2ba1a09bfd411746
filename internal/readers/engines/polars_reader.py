"""Polars over deltalake; the script of ddl is Python, and is run as it stands."""
import ast
import copy

import polars

import asking


class Polars:
    def __init__(self, task):
        self.task = task
        self.names = {}
        exec(compile(task["script"], "ddl", "exec"), self.names)
        self.calls = {}
        self.statements = 0
        for statement in ast.parse(task["script"]).body:
            self.statements += 1
            if isinstance(statement, ast.Assign):
                self.calls[statement.targets[0].id] = statement.value
        self.about = "Polars " + polars.__version__

    def table(self, name):
        return self.names[name]

    def current(self, dataset):
        return self.table(dataset["table"]).collect().to_arrow()

    def version(self, dataset, commit):
        # The script's own call, with a version.
        call = copy.deepcopy(self.calls[dataset["table"]])
        call.keywords.append(ast.keyword("version", ast.Constant(commit)))
        travel = eval(compile(ast.fix_missing_locations(ast.Expression(call)), "ddl", "eval"), self.names)
        return travel.collect().to_arrow()

    def changes(self, since):
        return self.table("changes").filter(polars.col("released_date") >= polars.lit(since).str.to_date()).collect().to_arrow()

    def publications(self):
        return self.table("publications").collect().to_arrow()

    def attachments(self, dataset):
        return self.table(dataset["table"] + "_attachments").collect().to_arrow()

    def join(self, dataset):
        rows = self.table(dataset["table"]).join(self.table(dataset["table"] + "_attachments"), left_on=dataset["documents"], right_on="file")
        return rows.select("_ploti_record_id", "key", "size_bytes", "content_type").collect().to_arrow()

    def geometry(self, dataset):
        column = dataset["geometry"]
        rows = self.table(dataset["table"]).filter(polars.col(column).is_not_null()).sort("_ploti_record_id")
        return rows.select("_ploti_record_id", column).head(1).collect().to_arrow()


if __name__ == "__main__":
    asking.main(Polars)
    asking.leave()
