"""deltalake (delta-rs) without an engine behind it."""
import datetime

import deltalake
import pyarrow
import pyarrow.compute

import asking


class Deltalake:
    def __init__(self, task):
        self.task = task
        self.options = None
        if task["s3"]:
            self.options = {"AWS_ENDPOINT_URL": task["s3"]["endpoint"], "AWS_ALLOW_HTTP": "true", "AWS_REGION": task["s3"]["region"]}
        self.about = "deltalake " + deltalake.__version__
        self.statements = 0  # its users name a location in Python, and no script is printed for that

    def open(self, location, version=None):
        return deltalake.DeltaTable(location, version=version, storage_options=self.options)

    def read(self, location, version=None):
        return self.open(location, version).to_pyarrow_table()

    def current(self, dataset):
        return self.read(dataset["location"])

    def count(self, dataset):
        return self.open(dataset["location"]).to_pyarrow_dataset().count_rows()

    def version(self, dataset, commit):
        return self.read(dataset["location"], commit)

    def changes(self, since):
        return self.open(self.task["root"] + "/changes").to_pyarrow_table(filters=[("released_date", ">=", datetime.date.fromisoformat(since))])

    def publications(self):
        return self.read(self.task["root"] + "/publications")

    def attachments(self, dataset):
        return self.read(self.task["root"] + "/attachment_index/ploti_dataset_id=" + dataset["dataset"])

    def join(self, dataset):
        rows = self.current(dataset).select(["_ploti_record_id", dataset["documents"]])
        index = self.attachments(dataset).select(["file", "key", "size_bytes", "content_type"])
        return rows.join(index, dataset["documents"], "file", join_type="inner").select(["_ploti_record_id", "key", "size_bytes", "content_type"])

    def geometry(self, dataset):
        rows = self.current(dataset).select(["_ploti_record_id", dataset["geometry"]])
        rows = rows.filter(pyarrow.compute.is_valid(rows[dataset["geometry"]]))
        return rows.sort_by("_ploti_record_id").slice(0, 1)


if __name__ == "__main__":
    asking.main(Deltalake)
    asking.leave()
