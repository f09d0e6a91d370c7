"""PyIceberg as a client of the catalog, as it comes. Usage: client.py <uri> <API key> <a viewer's token> <another workspace's token>"""

import sys
import threading

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    BadRequestError, CommitFailedException, ForbiddenError, NamespaceAlreadyExistsError, NamespaceNotEmptyError, NoSuchNamespaceError, NoSuchTableError,
    OAuthError, TableAlreadyExistsError, UnauthorizedError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import DecimalType, DoubleType, LongType, NestedField, StringType, TimestampType

uri, credential, viewer, theirs = sys.argv[1:]
catalog = load_catalog("millpond", type="rest", uri=uri, warehouse="lake", credential="ci:" + credential)


def refused(error, call, *words):
    try:
        call()
    except error as e:
        for word in words:
            assert word in str(e), (word, str(e))
        return
    raise AssertionError(f"{error.__name__} was not raised")


def rows(table, **how):
    return sorted(table.scan(**how).to_arrow().to_pylist(), key=lambda r: r["id"])


def people(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]})


def namespaces():
    catalog.create_namespace("py", {"owner": "ada"})
    catalog.create_namespace(("py", "deep"))
    catalog.create_namespace("py.deep.deeper")
    assert ("py",) in catalog.list_namespaces() and ("public",) in catalog.list_namespaces()
    assert catalog.list_namespaces("py") == [("py", "deep")], catalog.list_namespaces("py")
    assert catalog.list_namespaces(("py", "deep")) == [("py", "deep", "deeper")]
    assert catalog.namespace_exists("py.deep") and not catalog.namespace_exists("nowhere")
    assert catalog.load_namespace_properties("py")["owner"] == "ada"
    summary = catalog.update_namespace_properties("py", removals={"owner", "none"}, updates={"a": "1"})
    assert (summary.removed, summary.updated, summary.missing) == (["owner"], ["a"], ["none"]), summary
    refused(NamespaceAlreadyExistsError, lambda: catalog.create_namespace("py"))
    refused(NoSuchNamespaceError, lambda: catalog.load_namespace_properties("nowhere"), "nowhere")
    refused(NamespaceNotEmptyError, lambda: catalog.drop_namespace("py"))
    catalog.drop_namespace("py.deep.deeper")


def tables():
    table = catalog.create_table("py.deep.people", schema=people(1).schema)
    refused(TableAlreadyExistsError, lambda: catalog.create_table("py.deep.people", schema=people(1).schema))
    refused(NoSuchNamespaceError, lambda: catalog.create_table("nowhere.t", schema=people(1).schema))
    refused(NoSuchTableError, lambda: catalog.load_table("py.none"), "none")
    refused(BadRequestError, lambda: catalog.create_table("py.t", schema=people(1).schema, location="file:///tmp/elsewhere"))
    assert catalog.list_tables("py.deep") == [("py", "deep", "people")], catalog.list_tables("py.deep")
    assert catalog.table_exists("py.deep.people") and not catalog.table_exists("py.deep.none")

    table.append(people(1, 2, 3))
    table.append(people(4, 5))
    assert [r["id"] for r in rows(table)] == [1, 2, 3, 4, 5]
    assert [r["id"] for r in rows(table, row_filter="id > 3")] == [4, 5]
    table.delete("id = 2")
    assert [r["id"] for r in rows(catalog.load_table("py.deep.people"))] == [1, 3, 4, 5]
    result = table.upsert(pa.table({"id": pa.array([1, 9], pa.int64()), "name": ["changed", "new"]}), join_cols=["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 1), result
    assert {r["id"]: r["name"] for r in rows(table)} == {1: "changed", 3: "n3", 4: "n4", 5: "n5", 9: "new"}
    table.overwrite(people(7))
    assert [r["id"] for r in rows(table)] == [7]

    with table.update_schema() as update:
        update.add_column("score", DoubleType(), doc="of the game")
        update.rename_column("name", "full_name")
    table.append(pa.table({"id": pa.array([8], pa.int64()), "full_name": ["eight"], "score": [0.5]}))
    assert rows(catalog.load_table("py.deep.people")) == [{"id": 7, "full_name": "n7", "score": None}, {"id": 8, "full_name": "eight", "score": 0.5}]

    current = table.current_snapshot().snapshot_id
    first = table.history()[0].snapshot_id
    table.manage_snapshots().create_tag(first, "first").create_branch(current, "side").commit()
    assert {"main", "first", "side"} <= set(catalog.load_table("py.deep.people").refs())
    assert [r["id"] for r in rows(table, snapshot_id=first)] == [1, 2, 3]
    table.append(pa.table({"id": pa.array([99], pa.int64()), "full_name": ["side"], "score": [1.0]}), branch="side")
    assert [r["id"] for r in rows(catalog.load_table("py.deep.people"))] == [7, 8]
    table.manage_snapshots().remove_tag("first").commit()
    with table.transaction() as tx:
        tx.set_properties({"k": "v"})
        tx.append(pa.table({"id": pa.array([10], pa.int64()), "full_name": ["ten"], "score": [1.0]}))
    fresh = catalog.load_table("py.deep.people")
    assert fresh.properties["k"] == "v" and [r["id"] for r in rows(fresh)] == [7, 8, 10]

    catalog.rename_table("py.deep.people", "py.persons")
    assert not catalog.table_exists("py.deep.people") and [r["id"] for r in rows(catalog.load_table("py.persons"))] == [7, 8, 10]
    location = catalog.load_table("py.persons").metadata_location
    refused(TableAlreadyExistsError, lambda: catalog.register_table("py.persons", location))


def typed():
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "kind", StringType(), required=True),
        NestedField(3, "at", TimestampType(), required=False), NestedField(4, "amount", DecimalType(38, 10), required=False), identifier_field_ids=[1],
    )
    spec = PartitionSpec(
        PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="kind"),
        PartitionField(source_id=3, field_id=1001, transform=DayTransform(), name="day"),
        PartitionField(source_id=1, field_id=1002, transform=BucketTransform(4), name="bucket"),
    )
    with catalog.create_table_transaction("py.typed", schema=schema, partition_spec=spec, properties={"format-version": "2"}) as tx:
        tx.set_properties({"made": "so"})
    table = catalog.load_table("py.typed")
    assert table.properties["made"] == "so" and len(table.spec().fields) == 3
    from datetime import datetime
    from decimal import Decimal
    wanted = [{"id": i, "kind": "ab"[i % 2], "at": datetime(2024, 1, i + 1), "amount": Decimal("12345678901234567890.0123456789") * i} for i in range(8)]
    table.append(pa.Table.from_pylist(wanted, schema=table.schema().as_arrow()))
    assert rows(table) == wanted, rows(table)
    with table.update_spec() as update:
        update.remove_field("day")
    table.delete("kind = 'a'")
    assert [r["id"] for r in rows(catalog.load_table("py.typed"))] == [1, 3, 5, 7]


def crowd(writers=20, each=3):
    catalog.create_table("py.crowd", schema=people(1).schema)
    tries, failures = [], []

    def write(n):
        try:
            own = load_catalog(f"w{n}", type="rest", uri=uri, warehouse="lake", token=credential)
            for k in range(each):
                while True:
                    table = own.load_table("py.crowd")
                    tries.append(n)
                    try:
                        table.append(people(n * 1000 + k))
                        break
                    except CommitFailedException:
                        continue
        except BaseException as e:  # noqa: BLE001: told below
            failures.append(e)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]
    ids = [r["id"] for r in rows(catalog.load_table("py.crowd"))]
    assert ids == [n * 1000 + k for n in range(writers) for k in range(each)], "every row is there exactly once"
    print(f"{writers} writers: {writers * each} appends in {len(tries)} tries of theirs")


def views():
    from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion
    version = ViewVersion(
        version_id=1, schema_id=1, timestamp_ms=1700000000000, summary={"engine-name": "test"}, default_namespace=["py"],
        representations=[SQLViewRepresentation(type="sql", sql="SELECT * FROM persons", dialect="duckdb")],
    )
    catalog.create_view("py.seen", schema=Schema(NestedField(1, "id", LongType(), required=False)), view_version=version)
    assert catalog.list_views("py") == [("py", "seen")], catalog.list_views("py")
    assert catalog.view_exists("py.seen") and not catalog.view_exists("py.none")
    catalog.drop_view("py.seen")
    assert catalog.list_views("py") == []


def credentials():
    by_token = load_catalog("t", type="rest", uri=uri, warehouse="lake", token=credential)
    assert by_token.table_exists("py.persons")
    refused(OAuthError, lambda: load_catalog("t", type="rest", uri=uri, warehouse="lake", credential="ci:svc_sk_wrong"), "API key")
    refused(UnauthorizedError, lambda: load_catalog("t", type="rest", uri=uri, warehouse="lake", token="wrong"), "token")
    refused(UnauthorizedError, lambda: load_catalog("t", type="rest", uri=uri, warehouse="lake"))
    other = load_catalog("t", type="rest", uri=uri, warehouse="lake", token=theirs)
    refused(NoSuchNamespaceError, lambda: other.list_tables("py"))
    assert not other.table_exists("py.persons")
    reader = load_catalog("t", type="rest", uri=uri, warehouse="lake", token=viewer)
    assert len(rows(reader.load_table("py.persons"))) == 3
    refused(ForbiddenError, lambda: reader.drop_table("py.persons"), "viewer")
    refused(ForbiddenError, lambda: reader.create_namespace("mine"), "viewer")


def drops():
    catalog.drop_table("py.crowd")
    catalog.purge_table("py.typed")
    catalog.drop_table("py.persons")
    refused(NoSuchTableError, lambda: catalog.drop_table("py.persons"))
    catalog.drop_namespace("py.deep")
    catalog.drop_namespace("py")
    refused(NoSuchNamespaceError, lambda: catalog.drop_namespace("py"))
    catalog.close()


for part in (namespaces, tables, typed, crowd, views, credentials, drops):
    part()
    print(part.__name__, "is right", flush=True)
