"""What all engines share: a task comes in as JSON, each question is asked and timed, answers go out as JSON.

A cell is null, a bool, a number, text or a list. Decimals, dates and times are text; bytes are hexadecimal
digits behind 0x. An engine is a class; see SQLEngine for its methods. Nothing here knows an answer.
"""
import datetime
import decimal
import hashlib
import json
import os
import select
import sys
import time

import pyarrow


def cell(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "0x" + bytes(value).hex()
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="microseconds")
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [cell(one) for one in value]
    raise TypeError(f"no cell is made of {type(value)}: {value!r}")


def cells(table):
    """Returns the columns and rows of an Arrow table."""
    columns = [column.to_pylist() for column in table.columns]
    return list(table.column_names), [[cell(one) for one in row] for row in zip(*columns)]


def statements(script):
    """Splits a script of SQL at semicolons that end a line."""
    kept = "\n".join(line for line in script.splitlines() if not line.startswith("--"))
    return [one for one in (part.strip() for part in (kept + "\n").split(";\n")) if one]


class SQLEngine:
    """An engine that is asked in SQL, behind query(). geometry() may be spelled otherwise."""

    def current(self, dataset):
        return self.query(f"SELECT * FROM {self.name(dataset['table'])}")

    def changes(self, since):
        return self.query(f"SELECT * FROM {self.name('changes')} WHERE released_date >= DATE '{since}'")

    def publications(self):
        return self.query(f"SELECT * FROM {self.name('publications')}")

    def attachments(self, dataset):
        return self.query(f"SELECT * FROM {self.name(dataset['table'] + '_attachments')}")

    def join(self, dataset):
        return self.query(
            f"SELECT r._ploti_record_id AS _ploti_record_id, a.key AS key, a.size_bytes AS size_bytes, a.content_type AS content_type "
            f"FROM {self.name(dataset['table'])} r "
            f"JOIN {self.name(dataset['table'] + '_attachments')} a ON a.file = r.{dataset['documents']}"
        )

    def geometry(self, dataset):
        return self.query(
            f"SELECT _ploti_record_id, {dataset['geometry']} FROM {self.name(dataset['table'])} "
            f"WHERE {dataset['geometry']} IS NOT NULL ORDER BY _ploti_record_id LIMIT 1"
        )

    def name(self, table):
        return f"{self.task['database']}.{table}"


def answer(engine, task):
    """Asks everything, one question after the other."""
    answers = []

    def note(question, ask, dataset="", commit=0):
        began = time.monotonic()
        table = ask()
        seconds = time.monotonic() - began
        if not isinstance(table, pyarrow.Table):
            raise TypeError(f"{question}: {type(table)} is no Arrow table")
        columns, rows = cells(table)
        answers.append({"question": question, "dataset": dataset, "commit": commit, "columns": columns, "rows": rows, "seconds": seconds})

    for dataset in task["datasets"]:
        name = dataset["dataset"]
        note("current", lambda: engine.current(dataset), name)
        for commit in range(dataset["commits"]):
            note("version", lambda: engine.version(dataset, commit), name, commit)
        if dataset["attachments"]:
            note("attachments", lambda: engine.attachments(dataset), name)
        if dataset["documents"]:
            note("join", lambda: engine.join(dataset), name)
        if dataset["geometry"]:
            note("geometry", lambda: engine.geometry(dataset), name)
    note("changes", lambda: engine.changes(task["since"]))
    note("publications", engine.publications)
    return answers


def watch(engine, task):
    """Reads the one dataset again and again until standard input ends, and tells of each read in a line."""
    dataset = task["datasets"][0]
    while not select.select([sys.stdin], [], [], 0)[0]:
        columns, rows = cells(engine.current(dataset))
        record, version = columns.index("_ploti_record_id"), columns.index("_ploti_version")
        ids = sorted(row[record] for row in rows)
        line = {
            "columns": columns,
            "rows": len(rows),
            "versions": sorted({row[version] for row in rows}),
            "ids": hashlib.sha256("\n".join(ids).encode()).hexdigest(),
        }
        print(json.dumps(line), flush=True)


def opening(make, task):
    """Times how long it takes to open each dataset's table and count its rows, with nothing known of it before."""
    times = {dataset["dataset"]: [] for dataset in task["datasets"]}
    rows = {}
    for _ in range(task["repeats"]):
        for dataset in task["datasets"]:
            engine = make(task)
            began = time.monotonic()
            rows[dataset["dataset"]] = engine.count(dataset)
            times[dataset["dataset"]].append(time.monotonic() - began)
    return {"engine": engine.about, "seconds": times, "rows": rows}


def session(engine, texts):
    """Executes texts of one or more statements in order, as a person does, and says what the last statement of each returned."""
    answers = []
    for number, text in enumerate(texts):
        columns, rows = [], []
        for statement in statements(text):
            table = engine.query(statement)
            if table.num_columns:
                columns, rows = cells(table)
        answers.append({"question": str(number), "columns": columns, "rows": rows})
    return {"engine": engine.about, "statements": engine.statements, "answers": answers}


def main(make):
    """make(task) returns the engine after it executed the task's script. The task is the first line of standard input."""
    task = json.loads(sys.stdin.readline())
    if task["mode"] == "watch":
        watch(make(task), task)
        return
    if task["mode"] == "open":
        json.dump(opening(make, task), sys.stdout)
        return
    engine = make(task)
    if task["mode"] == "session":
        json.dump(session(engine, task["texts"]), sys.stdout)
        return
    json.dump({"engine": engine.about, "statements": engine.statements, "answers": answer(engine, task)}, sys.stdout)


def leave():
    """Ends the process with all answers out. Native threads of some engines abort it when Python ends in its usual order."""
    sys.stdout.flush()
    os._exit(0)
