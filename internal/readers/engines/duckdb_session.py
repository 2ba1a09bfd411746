"""DuckDB as a person uses it: one session that executes statements in order and says what each returned."""
import json
import sys

import asking
import duckdb_reader


def main():
    task = json.load(sys.stdin)
    engine = duckdb_reader.DuckDB(task)
    answers = []
    for number, text in enumerate(task["statements"]):
        columns, rows = [], []
        for statement in engine.connection.extract_statements(text):
            columns, rows = asking.cells(engine.query(statement))
        answers.append({"question": str(number), "columns": columns, "rows": rows})
    json.dump({"engine": engine.about, "statements": engine.statements, "answers": answers}, sys.stdout)


if __name__ == "__main__":
    main()
