"""PyIceberg as a client of the catalog, for TestMixedWriters: each line of its input is an order in JSON, and is answered by a line in JSON."""

import json
import sys

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BooleanType, DateType, DecimalType, DoubleType, LongType, StringType, TimestampType

TYPES = {
    "long": LongType(), "string": StringType(), "double": DoubleType(), "decimal": DecimalType(38, 2), "date": DateType(), "timestamp": TimestampType(), "boolean": BooleanType(),
}

catalog = load_catalog("lake", type="rest", uri=sys.argv[1], warehouse="lake", token=sys.argv[2])


def rows(table, order):
    """The rows of an order, whose values are texts, as Arrow's."""
    schema = table.schema().as_arrow()
    columns = []
    for i, field in enumerate(schema):
        kind = pa.string() if pa.types.is_large_string(field.type) else field.type
        texts = pa.array([row[i] for row in order["rows"]], pa.string())
        columns.append(texts.cast(kind).cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def append(table, order):
    table.append(rows(table, order))


def delete(table, order):
    table.delete(order["filter"])


def overwrite(table, order):
    table.overwrite(rows(table, order), overwrite_filter=order["filter"])


def upsert(table, order):
    table.upsert(rows(table, order), join_cols=["id"])


def add(table, order):
    with table.update_schema() as update:
        update.add_column(order["name"], TYPES[order["kind"]])


def rename(table, order):
    with table.update_schema() as update:
        update.rename_column(order["name"], order["to"])


def drop(table, order):
    with table.update_schema() as update:
        update.delete_column(order["name"])


def spec(table, order):
    with table.update_spec() as update:
        for field in table.spec().fields:
            update.remove_field(field.name)
        if order["buckets"]:
            update.add_field("id", BucketTransform(order["buckets"]), order["name"])


def tag(table, order):
    with table.manage_snapshots() as manage:
        manage.create_tag(order["snapshot"], order["name"])


def untag(table, order):
    with table.manage_snapshots() as manage:
        manage.remove_tag(order["name"])


def read(table, order):
    found = table.scan(row_filter=order["filter"]).to_arrow() if order["filter"] else table.scan().to_arrow()
    with pa.OSFile(order["path"], "wb") as sink, pa.ipc.new_stream(sink, found.schema) as out:
        out.write_table(found)


ORDERS = {f.__name__: f for f in (append, delete, overwrite, upsert, add, rename, drop, spec, tag, untag, read)}

for line in sys.stdin:
    order = json.loads(line)
    answer = {}
    try:
        ORDERS[order["do"]](catalog.load_table(order["table"]), order)
    except CommitFailedException as err:
        answer = {"conflict": str(err)}
    except Exception as err:
        answer = {"error": f"{type(err).__name__}: {err}"}
    print(json.dumps(answer), flush=True)
