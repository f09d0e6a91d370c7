"""The MLflow client, as it comes, against a tracking server. Usage: flows.py [flow …]

MLFLOW_TRACKING_URI names the server, MLFLOW_TRACKING_TOKEN logs in. One line is printed for each flow: "ok NAME" or
"failed NAME: …" with the traceback. Every flow passes on MLflow's own server, whose answers are the expected ones;
where a comment says so, Millpond's better answer is accepted too. Experiments have new names, so a server can be used
again.
"""

import os

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # a 500 must fail, and not cost minutes
os.environ.update(
    MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true", GIT_PYTHON_REFRESH="quiet", MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL="0.2",
    MLFLOW_SYSTEM_METRICS_SAMPLES_BEFORE_LOGGING="1",
)

import contextlib
import functools
import io
import logging
import math
import random
import sys
import threading
import time
import traceback
import uuid
import warnings

warnings.simplefilter("ignore")

import mlflow
import numpy as np
import pandas as pd
import requests
from mlflow import MlflowClient
from mlflow.entities import DatasetInput, InputTag, Metric, Param, RunTag, ViewType
from mlflow.exceptions import MlflowException

logging.getLogger("mlflow").setLevel(logging.ERROR)
uri = os.environ["MLFLOW_TRACKING_URI"].rstrip("/")
client = MlflowClient()
http = requests.Session()
http.headers["Authorization"] = "Bearer " + os.environ.get("MLFLOW_TRACKING_TOKEN", "")
mark = uuid.uuid4().hex[:12]
largest = sys.float_info.max  # what MLflow's store makes of infinity
three = mlflow.__version__.startswith("3.")
flows = []


def flow(f):
    flows.append(f)
    return f


def experiment(name):
    return client.create_experiment(f"{mark} {name}")


def new_run(experiment_id=None, **how):
    return client.create_run(experiment_id or experiment(uuid.uuid4().hex), **how).info.run_id


def call(method, path, body=None, api="api/2.0/mlflow"):
    """One request without the client's own checks: its status and JSON."""
    how = {"params": body} if method == "GET" else {"json": body}
    answer = http.request(method, f"{uri}/{api}/{path}", timeout=30, **how)
    return answer.status_code, answer.json()


def refused(method, path, body, status, code, *words):
    got, answer = call(method, path, body)
    assert got in (status if isinstance(status, tuple) else (status,)), (path, body, got, answer)
    assert answer["error_code"] == code, (path, body, answer)
    for word in words:
        assert word in answer["message"], (word, answer)


def raises(code, action, *words):
    try:
        action()
    except MlflowException as e:
        assert e.error_code == code, (code, e.error_code, str(e))
        for word in words:
            assert word in str(e), (word, str(e))
        return
    raise AssertionError(f"{code} was not raised")


def same(got, want):
    assert got == want, f"\n got {got!r:.2000}\nwant {want!r:.2000}"


def infinite(value, sign):
    """MLflow's store keeps the largest number instead of infinity; ours may keep infinity."""
    return value in (sign * math.inf, sign * largest)


@flow
def experiments():
    names = [f"{mark} find {n}" for n in ("alpha", "beta", "Gamma", "delta", "epsilon")]
    ids = [client.create_experiment(n, tags={"team": n[-1], "mark": mark}) for n in names]
    got = client.get_experiment(ids[0])
    same((got.name, got.lifecycle_stage, got.tags["team"]), (names[0], "active", "a"))
    assert got.creation_time and got.last_update_time and got.artifact_location.endswith("/" + ids[0]), got
    same(client.get_experiment_by_name(names[2]).experiment_id, ids[2])
    same(client.get_experiment_by_name(mark + " none"), None)
    same(client.get_experiment("0").name, "Default")
    raises("RESOURCE_ALREADY_EXISTS", lambda: client.create_experiment(names[0]))

    def found(filter_string, **how):
        return [e.name.split()[-1] for e in client.search_experiments(filter_string=f"tags.mark = '{mark}'" + filter_string, **how)]

    same(found(""), ["epsilon", "delta", "Gamma", "beta", "alpha"])  # the newest first
    same(found("", order_by=["name DESC"]), found("", order_by=["attribute.name DESC"]))
    same(sorted(found(" AND name LIKE '%eta'")), ["beta"])
    same(sorted(found(" AND name ILIKE '%GAMMA'")), ["Gamma"])
    same(sorted(found(" AND name LIKE '%GAMMA'")), [])
    same(sorted(found(f" AND name != '{names[0]}'")), ["Gamma", "beta", "delta", "epsilon"])
    same(sorted(found(" AND tags.team = 'a'")), ["Gamma", "alpha", "beta", "delta"])
    same(sorted(found(" AND tags.team != 'a'")), ["epsilon"])
    same(sorted(found(" AND tags.none != 'a'")), [])
    same(found(f" AND creation_time >= {client.get_experiment(ids[3]).creation_time}")[:2], ["epsilon", "delta"])
    same(found(" AND last_update_time < 1"), [])
    same(found("", order_by=["creation_time ASC"]), ["alpha", "beta", "Gamma", "delta", "epsilon"])
    same(found("", order_by=["experiment_id ASC"]), ["alpha", "beta", "Gamma", "delta", "epsilon"])
    pages, token = [], None
    while True:
        page = client.search_experiments(filter_string=f"tags.mark = '{mark}'", max_results=2, order_by=["name ASC"], page_token=token)
        pages.append([e.name for e in page])
        token = page.token
        if not token:
            break
    same([len(p) for p in pages], [2, 2, 1])
    same(sorted(sum(pages, [])), sorted(names))
    for filter_string in ("name = 1", "name > 'a'", "params.x = 'a'", "name = 'a' OR name = 'b'", "creation_time = 'a'", "bogus = 'a'"):
        raises("INVALID_PARAMETER_VALUE", lambda: client.search_experiments(filter_string=filter_string))
    raises("INVALID_PARAMETER_VALUE", lambda: client.search_experiments(order_by=["bogus"]))
    for most in (0, -1, 50001):
        raises("INVALID_PARAMETER_VALUE", lambda: client.search_experiments(max_results=most))
    raises("INVALID_PARAMETER_VALUE", lambda: client.search_experiments(page_token="no token"))

    client.rename_experiment(ids[0], names[0] + "!")
    same(client.get_experiment(ids[0]).name, names[0] + "!")
    # MLflow answers BAD_REQUEST with its SQL.
    status, answer = call("POST", "experiments/update", {"experiment_id": ids[0], "new_name": names[1]})
    assert status == 400 and answer["error_code"] in ("BAD_REQUEST", "RESOURCE_ALREADY_EXISTS"), (status, answer)
    client.set_experiment_tag(ids[0], "team", "öst")
    client.set_experiment_tag(ids[0], "mlflow.note.content", "# A note\n")
    same(client.get_experiment(ids[0]).tags["team"], "öst")
    if three:
        client.delete_experiment_tag(ids[0], "team")
        assert "team" not in client.get_experiment(ids[0]).tags
        raises("RESOURCE_DOES_NOT_EXIST", lambda: client.delete_experiment_tag(ids[0], "team"))

    run = new_run(ids[1])
    client.delete_experiment(ids[1])
    same(client.get_experiment(ids[1]).lifecycle_stage, "deleted")
    same(client.get_experiment_by_name(names[1]).lifecycle_stage, "deleted")
    same(client.get_run(run).info.lifecycle_stage, "deleted")
    same(found("", view_type=ViewType.DELETED_ONLY), ["beta"])
    same(len(found("", view_type=ViewType.ALL)), 5)
    same(len(found("")), 4)
    raises("RESOURCE_ALREADY_EXISTS", lambda: client.create_experiment(names[1]))
    raises("INVALID_PARAMETER_VALUE", lambda: client.create_run(ids[1]))
    # MLflow answers 500, which its own client repeats for minutes; Millpond answers 400.
    refused("POST", "experiments/update", {"experiment_id": ids[1], "new_name": "x" + mark}, (400, 500), "INVALID_STATE")
    client.restore_experiment(ids[1])
    same(client.get_experiment(ids[1]).lifecycle_stage, "active")
    same(client.get_run(run).info.lifecycle_stage, "active")
    for path in ("delete", "restore"):
        refused("POST", "experiments/" + path, {"experiment_id": "987654321"}, 404, "RESOURCE_DOES_NOT_EXIST", "No Experiment with id=987654321 exists")
    raises("RESOURCE_DOES_NOT_EXIST", lambda: client.get_experiment("987654321"))


@flow
def fluent():
    made = mlflow.set_experiment(f"{mark} fluent")
    same(mlflow.set_experiment(f"{mark} fluent").experiment_id, made.experiment_id)
    mlflow.set_experiment(experiment_id=made.experiment_id)
    before = int(time.time() * 1000)
    with mlflow.start_run(run_name="first", tags={"a": "1"}, description="what it does") as run:
        mlflow.log_param("lr", 0.25)
        same(mlflow.log_param("depth", 3), 3)
        mlflow.log_params({"layers": [1, 2], "none": None, "empty": ""})
        mlflow.log_metric("loss", 0.5)
        mlflow.log_metric("loss", 0.25, step=1)
        mlflow.log_metrics({"acc": 0.5, "f1": np.float32(0.25)}, step=3)
        mlflow.set_tag("b", 2)
        mlflow.set_tags({"c": True, "d": None})
        mlflow.delete_tag("a")
        assert mlflow.active_run().info.run_id == run.info.run_id
        running = client.get_run(run.info.run_id).info
        same((running.status, running.end_time), ("RUNNING", None))
    got = mlflow.get_run(run.info.run_id)
    same(got.data.params, {"lr": "0.25", "depth": "3", "layers": "[1, 2]", "none": "None", "empty": ""})
    same(got.data.metrics, {"loss": 0.25, "acc": 0.5, "f1": 0.25})
    own = {k: v for k, v in got.data.tags.items() if not k.startswith("mlflow.")}
    same(own, {"b": "2", "c": "True", "d": "None"})
    same((got.data.tags["mlflow.runName"], got.data.tags["mlflow.note.content"]), ("first", "what it does"))
    assert {"mlflow.user", "mlflow.source.name", "mlflow.source.type"} <= set(got.data.tags), got.data.tags
    info = got.info
    same((info.run_name, info.status, info.lifecycle_stage, info.experiment_id), ("first", "FINISHED", "active", made.experiment_id))
    assert before <= info.start_time <= info.end_time <= time.time() * 1000 + 1, info
    assert len(info.run_id) == 32 and info.artifact_uri.endswith(f"/{info.run_id}/artifacts"), info
    assert info.run_id in info.artifact_uri
    same(mlflow.last_active_run().info.run_id, info.run_id)
    try:
        with mlflow.start_run() as failed:
            raise KeyError
    except KeyError:
        pass
    got = mlflow.get_run(failed.info.run_id)
    same(got.info.status, "FAILED")
    assert got.info.run_name and got.data.tags["mlflow.runName"] == got.info.run_name, "the server makes a name"
    frame = mlflow.search_runs(experiment_names=[f"{mark} fluent"], filter_string="params.depth = '3'")
    same((list(frame["run_id"]), list(frame["metrics.acc"]), list(frame["params.lr"])), ([info.run_id], [0.5], ["0.25"]))
    same(len(mlflow.search_runs([made.experiment_id], output_format="list")), 2)


@flow
def batches():
    run = new_run()
    metrics = [Metric(f"m/{i % 10}", float(i), 1000 + i, i) for i in range(1000)]
    client.log_batch(run, metrics=metrics)
    client.log_batch(run, metrics=metrics)  # a repeated request changes nothing
    same(client.get_run(run).data.metrics, {f"m/{k}": float(990 + k) for k in range(10)})
    same([m.value for m in client.get_metric_history(run, "m/3")], [float(i) for i in range(3, 1000, 10)])
    client.log_batch(run, params=[Param(f"p{i}", str(i)) for i in range(100)])
    client.log_batch(run, tags=[RunTag(f"t{i}", str(i)) for i in range(100)])
    client.log_batch(run, params=[Param("p1", "1"), Param("new", "1")], tags=[RunTag("t1", "changed")], metrics=[Metric("one", 1, 1, 1)])
    data = client.get_run(run).data
    same((len(data.params), data.params["new"], data.tags["t1"], data.metrics["one"]), (101, "1", "changed", 1.0))
    client.log_batch(run)

    def batch(**what):
        return "POST", "runs/log-batch", {"run_id": run, **what}

    def points(n):
        return [{"key": "limit", "value": i, "timestamp": i, "step": i} for i in range(n)]

    def pairs(n, key):
        return [{"key": f"{key}{i}", "value": "x"} for i in range(n)]

    same(call(*batch(metrics=points(800), params=pairs(100, "q"), tags=pairs(100, "u"))), (200, {}))
    for too_many in (
        {"metrics": points(1001)}, {"params": pairs(101, "r")}, {"tags": pairs(101, "r")},
        {"metrics": points(801), "params": pairs(100, "r"), "tags": pairs(100, "r")},
    ):
        refused(*batch(**too_many), 400, "INVALID_PARAMETER_VALUE", "at most 1")
    refused(*batch(params=[{"key": "twice", "value": "1"}, {"key": "twice", "value": "1"}]), 400, "INVALID_PARAMETER_VALUE", "Duplicate parameter keys have been submitted")
    refused(*batch(params=[{"key": "p1", "value": "2"}]), 400, "INVALID_PARAMETER_VALUE", "Changing param values is not allowed")
    # A batch that is refused leaves nothing behind.
    refused(*batch(params=[{"key": "p2", "value": "other"}], metrics=[{"key": "ghost", "value": 1, "timestamp": 1}], tags=[{"key": "ghost", "value": "1"}]), 400, "INVALID_PARAMETER_VALUE")
    refused(*batch(metrics=[{"key": "ghost", "value": 1, "timestamp": 1}, {"key": "no;", "value": 1, "timestamp": 1}]), 400, "INVALID_PARAMETER_VALUE")
    data = client.get_run(run).data
    assert "ghost" not in data.metrics and "ghost" not in data.tags, data
    assert data.params["p2"] == "2" and not any(k.startswith("r") for k in data.params), data.params
    same(call(*batch(metrics=[{"key": "text", "value": "0.5", "timestamp": "7", "step": "9007199254740993"}])), (200, {}))
    point = client.get_metric_history(run, "text")[0]
    same((point.value, point.timestamp, point.step), (0.5, 7, 9007199254740993))
    for wrong in ({"key": "k", "timestamp": 1}, {"key": "k", "value": 1}, {"value": 1, "timestamp": 1}, {"key": "", "value": 1, "timestamp": 1}):
        refused(*batch(metrics=[wrong]), 400, "INVALID_PARAMETER_VALUE", "Missing value for required parameter 'metrics[0].")
    refused(*batch(metrics=[{"key": "k", "value": 1, "timestamp": -1}]), 400, "INVALID_PARAMETER_VALUE")
    refused(*batch(metrics={"key": "k"}), 400, "INVALID_PARAMETER_VALUE")
    # MLflow means to refuse more than 1 MB, but counts the request's fields instead of its bytes.
    status, _ = call(*batch(tags=[{"key": f"k{i}", "value": "x" * 20000} for i in range(60)]))
    assert status in (200, 400), status
    same(call(*batch(params=[{"key": "long", "value": "x" * 6001}], tags=[{"key": "long", "value": "y" * 8001}])), (200, {}))
    data = client.get_run(run).data
    same((len(data.params["long"]), len(data.tags["long"])), (6000, 8000))  # cut without a word


@flow
def history():
    run = new_run()
    odd = [("nan", math.nan), ("inf", math.inf), ("-inf", -math.inf), ("zero", 0.0), ("large", 1e308), ("tiny", 5e-324), ("pi", math.pi)]
    for key, value in odd:
        client.log_metric(run, "odd/" + key, value, timestamp=5, step=-3)
    got = client.get_run(run).data.metrics
    assert math.isnan(got["odd/nan"]) and infinite(got["odd/inf"], 1) and infinite(got["odd/-inf"], -1), got
    same([got["odd/" + k] for k in ("zero", "large", "tiny", "pi")], [0.0, 1e308, 5e-324, math.pi])
    for key, value in odd[:3]:
        _, answer = call("GET", "metrics/get-history", {"run_id": run, "metric_key": "odd/" + key})
        wire = answer["metrics"][0]
        assert wire["value"] in ("NaN", "Infinity", "-Infinity", largest, -largest), wire
        same((wire["timestamp"], wire["step"]), (5, -3))
    # The latest value is that of the largest step, then timestamp, then value, whatever came last.
    order = [(1.0, 10, 1), (9.0, 10, 2), (3.0, 30, 2), (2.0, 20, 2), (3.5, 30, 2), (99.0, 90, 0)]
    for value, timestamp, step in order:
        client.log_metric(run, "latest", value, timestamp, step)
    same(client.get_run(run).data.metrics["latest"], 3.5)
    same([(m.value, m.timestamp, m.step) for m in client.get_metric_history(run, "latest")],
         [(1.0, 10, 1), (9.0, 10, 2), (2.0, 20, 2), (3.0, 30, 2), (3.5, 30, 2), (99.0, 90, 0)])  # by timestamp, step, value
    same(client.get_metric_history(run, "unknown"), [])
    client.log_metric(run, "again", 1, 1, 1)
    client.log_metric(run, "again", 1, 1, 1)
    same(len(client.get_metric_history(run, "again")), 1)
    near, far = -(2**63), 2**63 - 1
    client.log_metric(run, "steps", 1, 1, far)
    client.log_metric(run, "steps", 2, 2, near)
    same([m.step for m in client.get_metric_history(run, "steps")], [far, near])
    same(client.get_run(run).data.metrics["steps"], 1.0)

    count = 2600
    for start in range(0, count, 1000):
        client.log_batch(run, [Metric("long", i / 3, i, i) for i in range(start, min(start + 1000, count))])
    same([m.value for m in client.get_metric_history(run, "long")], [i / 3 for i in range(count)])
    query, pages = {"run_id": run, "metric_key": "long", "max_results": 1000}, []
    while True:
        status, answer = call("GET", "metrics/get-history", query)
        same(status, 200)
        pages.append([m["step"] for m in answer["metrics"]])
        if not answer.get("next_page_token"):
            break
        query["page_token"] = answer["next_page_token"]
    same([len(p) for p in pages], [1000, 1000, 600])
    same(sum(pages, []), list(range(count)))
    refused("GET", "metrics/get-history", {"run_id": run, "metric_key": "long", "page_token": "no token", "max_results": 5}, 400, "INVALID_PARAMETER_VALUE")
    refused("GET", "metrics/get-history", {"run_id": run}, 400, "INVALID_PARAMETER_VALUE", "Missing value for required parameter 'metric_key'.")
    other = new_run()
    client.log_metric(other, "long", 7, 7, 7)
    status, answer = call("GET", "metrics/get-history-bulk-interval", {"run_ids": [run, other], "metric_key": "long", "start_step": 5, "end_step": 9, "max_results": 100})
    same(status, 200)
    same(sorted((m["run_id"] == run, m["step"]) for m in answer["metrics"]), [(False, 7)] + [(True, s) for s in range(5, 10)])
    status, answer = call("GET", "metrics/get-history-bulk-interval", {"run_ids": [run], "metric_key": "long", "max_results": 50})
    steps = [m["step"] for m in answer["metrics"]]
    assert status == 200 and 0 in steps and count - 1 in steps and 40 <= len(steps) <= 60, (status, len(steps))
    refused("GET", "metrics/get-history-bulk-interval", {"run_ids": [run], "metric_key": "long", "start_step": 5}, 400, "INVALID_PARAMETER_VALUE")
    status, answer = call("GET", "metrics/get-history-bulk", {"run_id": [run, other], "metric_key": "long", "max_results": 10}, api="ajax-api/2.0/mlflow")
    assert status == 200 and len(answer["metrics"]) == 10 and {m["run_id"] for m in answer["metrics"]} <= {run, other}, (status, answer)


@flow
def nested_and_resumed():
    made = mlflow.set_experiment(f"{mark} nested").experiment_id
    with mlflow.start_run(run_name="parent") as parent:
        for i in range(3):
            with mlflow.start_run(run_name=f"child {i}", nested=True) as child:
                mlflow.log_metric("m", i)
                with mlflow.start_run(nested=True):
                    mlflow.log_param("depth", 2)
    same(client.get_run(child.info.run_id).data.tags["mlflow.parentRunId"], parent.info.run_id)
    same(client.get_parent_run(child.info.run_id).info.run_id, parent.info.run_id)
    children = client.search_runs([made], f"tags.mlflow.parentRunId = '{parent.info.run_id}'", order_by=["metrics.m DESC"])
    same([r.info.run_name for r in children], ["child 2", "child 1", "child 0"])
    same([r.info.status for r in children], ["FINISHED"] * 3)
    same(len(client.search_runs([made], f"tags.`mlflow.parentRunId` = '{child.info.run_id}'")), 1)

    with mlflow.start_run(run_id=parent.info.run_id, tags={"resumed": "yes"}):
        mlflow.log_metric("late", 1)
        same(client.get_run(parent.info.run_id).info.status, "RUNNING")
    got = client.get_run(parent.info.run_id)
    same((got.info.status, got.data.metrics["late"], got.data.tags["resumed"], got.info.run_name), ("FINISHED", 1.0, "yes", "parent"))
    assert got.info.end_time >= got.info.start_time
    client.update_run(parent.info.run_id, name="renamed")
    got = client.get_run(parent.info.run_id)
    same((got.info.run_name, got.data.tags["mlflow.runName"], got.info.status), ("renamed", "renamed", "FINISHED"))
    client.set_tag(parent.info.run_id, "mlflow.runName", "by tag")
    got = client.get_run(parent.info.run_id)
    same((got.info.run_name, got.data.tags["mlflow.runName"]), ("by tag", "by tag"))
    refused("POST", "runs/create", {"experiment_id": made, "run_name": "a", "tags": [{"key": "mlflow.runName", "value": "b"}]}, 400, "INVALID_PARAMETER_VALUE")


@functools.cache
def zoo():
    """Eight runs with everything that a search can look at, and their experiment."""
    made = experiment("search " + uuid.uuid4().hex[:6])
    acc = [0.1, 0.5, math.nan, None, math.inf, -math.inf, 0.5, -3]
    status = ["FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED", "FINISHED", "FINISHED", "RUNNING"]
    ids = []
    for i in range(8):
        run = new_run(made, start_time=1000 + 100 * (i // 2), run_name=f"Run-{i}", tags={"kind": "odd" if i % 2 else "even", "mlflow.user": "ada" if i < 4 else "bob", "a.b-c/d e": str(i)})
        if acc[i] is not None:
            client.log_metric(run, "acc", acc[i], 1, 1)
        client.log_metric(run, "val/loss 1", i * 1.5, 1, 1)
        client.log_param(run, "model", ["CNN", "cnn", "RNN", "r_n", "50%", "it's", "", "日本"][i])
        if i % 3 == 0:
            client.log_param(run, "third", str(i))
        if status[i] not in ("RUNNING", "SCHEDULED"):
            client.set_terminated(run, status[i], end_time=5000 + i)
        elif status[i] == "SCHEDULED":
            client.update_run(run, status="SCHEDULED")
        ids.append(run)
    data = mlflow.data.from_pandas(pd.DataFrame({"x": [1.0, 2.0]}), source="https://example.com/a.csv", name="iris")
    for i, context in ((1, "train"), (2, "eval")):
        client.log_inputs(ids[i], [DatasetInput(data._to_mlflow_entity(), [InputTag("mlflow.data.context", context)])])
    return made, ids


@flow
def searches():
    made, ids = zoo()
    every = set(range(8))
    cases = {
        "": every,
        "metrics.acc > 0.1": {1, 4, 6}, "metrics.acc >= 0.1": {0, 1, 4, 6}, "metric.acc < 0.1": {5, 7}, "metrics.acc <= 0.1": {0, 5, 7},
        "metrics.acc = 0.5": {1, 6}, "metrics.acc != 0.5": {0, 2, 4, 5, 7}, "metrics.acc = 0": set(), "metrics.acc > -3.5 AND metrics.acc < 1e3": {0, 1, 6, 7},
        "metrics.acc > 1e300": {4}, "metrics.`val/loss 1` >= 9": {6, 7}, 'metrics."val/loss 1" < 1.6': {0, 1}, "metrics.none != 1": set(),
        "params.model = 'CNN'": {0}, "params.model != 'CNN'": every - {0}, "param.model LIKE '%NN'": {0, 2}, "parameters.model ILIKE '%nn'": {0, 1, 2}, "parameter.model ILIKE 'c%'": {0, 1},
        "params.model LIKE 'r_n'": {3}, "params.model LIKE 'R_N'": {2}, 'params.model = "it\'s"': {5}, "params.model = '日本'": {7}, "params.model LIKE '日%'": {7}, "params.model = ''": {6},
        "params.third != '3'": {0, 6}, "params.none = ''": set(),
        "tags.kind = 'odd'": {1, 3, 5, 7}, "tag.kind != 'odd'": {0, 2, 4, 6}, "tags.`a.b-c/d e` = '3'": {3}, "tags.kind LIKE '%d%' and params.model ilike '%n%'": {1, 3},
        "tags.none != 'x'": set(), "tags.mlflow.runName = 'Run-1'": {1}, "tags.`mlflow.user` = 'bob'": {4, 5, 6, 7},
        "attributes.status = 'FINISHED'": {0, 5, 6}, "attribute.status != 'FINISHED'": {1, 2, 3, 4, 7}, "status = 'RUNNING'": {3, 7}, "attr.status LIKE 'F%'": {0, 1, 5, 6}, "run.status ILIKE 'killed'": {2},
        "start_time = 1100": {2, 3}, "attributes.start_time > 1100": {4, 5, 6, 7}, "created <= 1100": {0, 1, 2, 3}, "attributes.start_time != 1100": every - {2, 3},
        "end_time >= 5005": {5, 6}, "attributes.end_time != 5000": {1, 2, 5, 6}, "end_time < 0": set(),
        "run_name = 'Run-4'": {4}, "attributes.run_name LIKE 'run%'": set(), "attributes.run_name ILIKE 'run-%'": every, "attributes.`run name` = 'Run-4'": {4}, "run_name != 'Run-4'": every - {4},
        f"run_id = '{ids[3]}'": {3}, f"attributes.run_id IN ('{ids[3]}', '{ids[5]}')": {3, 5}, f"run_id NOT IN ('{ids[3]}', '{ids[5]}')": every - {3, 5}, f"run_id IN ('{ids[3]}')": {3},
        f"attributes.artifact_uri LIKE '%{ids[2]}%'": {2}, "user_id = 'nobody'": set(),
        "dataset.name = 'iris'": {1, 2}, "datasets.name LIKE 'ir%'": {1, 2}, "dataset.context = 'train'": {1}, "dataset.context IN ('train', 'eval')": {1, 2}, "dataset.name != 'iris'": set(),
        "dataset.name ILIKE 'IRIS' AND dataset.context = 'eval'": {2}, "dataset.context NOT IN ('train')": {2}, "dataset.digest = 'x'": set(),
        "metrics.acc >= 0.1 AND params.model ILIKE 'c%' AND tags.kind = 'odd' AND status = 'FAILED'": {1},
    }
    if three:  # 3.17's server knows these; they are not checked by the older client's flows
        cases |= {"params.third IS NULL": every - {0, 3, 6}, "params.third IS NOT NULL": {0, 3, 6}, "tags.none IS NULL AND tags.kind = 'odd'": {1, 3, 5, 7}}
    wrong = []
    for text, want in cases.items():
        try:
            got = {ids.index(r.info.run_id) for r in client.search_runs([made], text)}
        except MlflowException as e:
            got = str(e)
        if got != want:
            wrong.append(f"{text}: got {got}, want {want}")
    assert not wrong, "\n".join(wrong)
    bad = [  # MLflow's parser also lets pass a lone or last AND, and two clauses without one
        "metrics.acc > 'a'", "metrics.acc LIKE '1'", "params.model > 'a'", "params.model = 1", "params.model = bare", "tags.kind >= 'a'", "status > 'a'", "bogus.x = 'a'", "attributes.bogus = 'a'",
        "metrics.acc > 1 OR metrics.acc < 0", "(metrics.acc > 1)", "metrics.acc >", "metrics.acc", "params.model = 'a", "start_time = 'a'", "start_time LIKE '1'",
        "params.model IN ('a')", "status IN ('FINISHED')", "metrics.acc IN (1)", "run_id IN (1, 2)", "dataset.bogus = 'a'", "dataset.name > 'a'", "metrics.acc > 1; metrics.acc > 2",
        "metrics.acc == 1", "1 = 1", "metrics.acc BETWEEN 1 AND 2", "run_id IN ()", "dataset.name = 1", "'a' = params.model", "NOT params.model = 'a'",
    ]
    accepted = []
    for text in bad:
        status, answer = call("POST", "runs/search", {"experiment_ids": [made], "filter": text})
        if (status, answer.get("error_code")) != (400, "INVALID_PARAMETER_VALUE"):
            accepted.append((text, status, str(answer)[:200]))
    assert not accepted, "\n".join(map(str, accepted))
    same({ids.index(r.info.run_id) for r in client.search_runs([made, experiment("empty")])}, every)
    same(list(client.search_runs([])), [])
    same(client.search_runs(["987654321"]), [])


@flow
def orders_and_pages():
    made, ids = zoo()
    ties = [sorted(pair, key=lambda i: ids[i]) for pair in ((6, 7), (4, 5), (2, 3), (0, 1))]
    default = sum(ties, [])  # the newest start first, then by id

    def rank(*numbers):
        """Runs equal in the order are by start, the newest first, and then by id."""
        return sorted(numbers, key=default.index)

    cases = {
        (): default, ("start_time DESC",): default, ("created ASC",): sum(reversed(ties), []), ("attributes.start_time",): sum(reversed(ties), []),
        # NaN stands behind all numbers and before the runs without the metric, in both directions.
        ("metrics.acc",): [5, 7, 0, *rank(1, 6), 4, 2, 3], ("metrics.acc ASC",): [5, 7, 0, *rank(1, 6), 4, 2, 3], ("metrics.acc DESC",): [4, *rank(1, 6), 0, 7, 5, 2, 3],
        ("metrics.`val/loss 1` desc",): [7, 6, 5, 4, 3, 2, 1, 0], ("metrics.none ASC",): default,
        ("params.third DESC",): [6, 3, 0, *rank(1, 2, 4, 5, 7)], ("params.third ASC",): [0, 3, 6, *rank(1, 2, 4, 5, 7)],
        ("tags.kind ASC", "metrics.`val/loss 1` ASC"): [0, 2, 4, 6, 1, 3, 5, 7], ("tag.`a.b-c/d e` DESC",): [7, 6, 5, 4, 3, 2, 1, 0],
        ("end_time DESC",): [6, 5, 2, 1, 0, *rank(3, 4, 7)], ("attributes.end_time ASC",): [0, 1, 2, 5, 6, *rank(3, 4, 7)],
        ("attributes.status ASC", "run_name DESC"): [1, 6, 5, 0, 2, 7, 3, 4], ("run_id ASC",): sorted(range(8), key=lambda i: ids[i]), ("attributes.run_name DESC",): [7, 6, 5, 4, 3, 2, 1, 0],
    }
    wrong = []
    for order, want in cases.items():
        try:
            whole = [ids.index(r.info.run_id) for r in client.search_runs([made], order_by=list(order))]
            paged, token, sizes = [], None, []
            while token or not sizes:
                page = client.search_runs([made], order_by=list(order), max_results=5, page_token=token)
                paged += [ids.index(r.info.run_id) for r in page]
                sizes.append(len(page))
                token = page.token
        except MlflowException as e:
            whole, paged, sizes = str(e), [], []
        if whole != want or paged != want or sizes != [5, 3]:
            wrong.append(f"{order}: got {whole}, by pages {paged} of {sizes}, want {want}")
    assert not wrong, "\n".join(wrong)
    page = client.search_runs([made], max_results=8)
    assert len(page) == 8 and not page.token, page.token
    for order in ("bogus.x", "metrics.acc UP", "metrics.acc ASC DESC", "", "attributes.bogus", "params"):
        raises("INVALID_PARAMETER_VALUE", lambda: client.search_runs([made], order_by=[order]))
    # MLflow answers 500 (its client repeats that for minutes); Millpond answers 400.
    status, answer = call("POST", "runs/search", {"experiment_ids": [made], "order_by": ["metrics.acc", "metric.acc DESC"]})
    assert (status, answer["error_code"]) in ((400, "INVALID_PARAMETER_VALUE"), (500, "INTERNAL_ERROR")), (status, answer)
    for most in (0, -1, 50001):
        refused("POST", "runs/search", {"experiment_ids": [made], "max_results": most}, 400, "INVALID_PARAMETER_VALUE")
    same(len(client.search_runs([made], max_results=50000)), 8)
    refused("POST", "runs/search", {"experiment_ids": [made], "page_token": "no token"}, 400, "INVALID_PARAMETER_VALUE")
    refused("POST", "runs/search", {"experiment_ids": made}, 400, "INVALID_PARAMETER_VALUE")


@flow
def system_metrics():
    mlflow.set_experiment(f"{mark} system")
    with mlflow.start_run(log_system_metrics=True) as run:
        until(lambda: any(m.step >= 1 for m in client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage")))
    got = client.get_run(run.info.run_id).data.metrics
    assert {"system/cpu_utilization_percentage", "system/system_memory_usage_megabytes", "system/disk_usage_percentage"} <= set(got), got
    with mlflow.start_run(run_id=run.info.run_id, log_system_metrics=True):
        last = max(m.step for m in client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage"))
        until(lambda: max(m.step for m in client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage")) > last)


def until(true):
    for _ in range(200):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("waited 10 s in vain")


@flow
def datasets():
    made = mlflow.set_experiment(f"{mark} datasets").experiment_id
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "ö"], "y": [0, 1]})
    table = mlflow.data.from_pandas(frame, source="https://example.com/t.csv", name="table", targets="y")
    array = mlflow.data.from_numpy(np.arange(6).reshape(2, 3), name="array")
    with mlflow.start_run() as run:
        mlflow.log_input(table, context="training", tags={"split": "1"})
        mlflow.log_input(table, context="training")  # the same once more
        mlflow.log_input(array)
    inputs = client.get_run(run.info.run_id).inputs.dataset_inputs
    same(sorted(i.dataset.name for i in inputs), ["array", "table"])
    got = next(i for i in inputs if i.dataset.name == "table")
    same((got.dataset.digest, got.dataset.source_type), (table.digest, "http"))
    assert "example.com" in got.dataset.source and '"a"' in got.dataset.schema and "num_rows" in got.dataset.profile, got.dataset
    tags = {t.key: t.value for t in got.tags}
    same((tags["mlflow.data.context"], tags.get("split")), ("training", "1"))
    found = client.search_runs([made], "dataset.name = 'table' AND dataset.context = 'training'")
    same([len(r.inputs.dataset_inputs) for r in found], [2])
    _, answer = call("POST", "experiments/search-datasets", {"experiment_ids": [made]}, api="ajax-api/2.0/mlflow")
    same(sorted((s["name"], s.get("context")) for s in answer["dataset_summaries"]), [("array", None), ("table", "training")])

    def inputs_of(dataset, tags=()):
        return "POST", "runs/log-inputs", {"run_id": run.info.run_id, "datasets": [{"dataset": dataset, "tags": list(tags)}]}

    ok = {"name": "n", "digest": "d", "source_type": "t", "source": "s"}
    same(call(*inputs_of(ok)), (200, {}))
    for wrong in ({**ok, "name": "x" * 501}, {**ok, "digest": "x" * 37}, {**ok, "source": "x" * 65536}, {**ok, "schema": "x" * 1048576}):
        refused(*inputs_of(wrong), 400, "INVALID_PARAMETER_VALUE")
    for wrong in ({"key": "x" * 256, "value": "1"}, {"key": "k", "value": "x" * 501}):
        refused(*inputs_of(ok, [wrong]), 400, "INVALID_PARAMETER_VALUE")


@flow
def life():
    made = experiment("life")
    for status in ("FINISHED", "FAILED", "KILLED"):
        run = new_run(made)
        client.set_terminated(run, status, end_time=123456)
        got = client.get_run(run).info
        same((got.status, got.end_time), (status, 123456))
    run = new_run(made)
    client.set_terminated(run)
    same(client.get_run(run).info.status, "FINISHED")
    client.update_run(run, status="RUNNING")
    same(client.get_run(run).info.status, "RUNNING")
    client.log_metric(run, "m", 1)
    client.delete_run(run)
    got = client.get_run(run)
    same((got.info.lifecycle_stage, got.data.metrics), ("deleted", {"m": 1.0}))
    assert run not in {r.info.run_id for r in client.search_runs([made])}
    same([r.info.run_id for r in client.search_runs([made], run_view_type=ViewType.DELETED_ONLY)], [run])
    same(len(client.search_runs([made], run_view_type=ViewType.ALL)), 4)
    for path, body in (
        ("log-metric", {"key": "m", "value": 1, "timestamp": 1}), ("log-parameter", {"key": "p", "value": "1"}), ("set-tag", {"key": "t", "value": "1"}),
        ("delete-tag", {"key": "mlflow.runName"}), ("update", {"status": "FINISHED"}), ("log-batch", {"metrics": [{"key": "m", "value": 1, "timestamp": 1}]}),
    ):
        refused("POST", "runs/" + path, {"run_id": run, **body}, 400, "INVALID_PARAMETER_VALUE", f"The run {run} must be in the 'active' state")
    client.restore_run(run)
    client.log_metric(run, "m", 2, step=1)
    got = client.get_run(run)
    same((got.info.lifecycle_stage, got.data.metrics), ("active", {"m": 2.0}))
    client.set_tag(run, "gone", "1")
    client.delete_tag(run, "gone")
    raises("RESOURCE_DOES_NOT_EXIST", lambda: client.delete_tag(run, "gone"), "No tag with name: gone")


@flow
def errors():
    run, none = new_run(), "0" * 32
    client.log_param(run, "p", "1")
    client.log_param(run, "p", "1")
    raises("INVALID_PARAMETER_VALUE", lambda: client.log_param(run, "p", "2"), "Changing param values is not allowed")
    raises("RESOURCE_DOES_NOT_EXIST", lambda: client.get_run(none), f"Run with id={none} not found")
    for path, body in (
        ("log-metric", {"key": "m", "value": 1, "timestamp": 1}), ("log-parameter", {"key": "p", "value": "1"}), ("set-tag", {"key": "t", "value": "1"}), ("delete-tag", {"key": "t"}),
        ("update", {"status": "FINISHED"}), ("log-batch", {"metrics": [{"key": "m", "value": 1, "timestamp": 1}]}), ("delete", {}), ("restore", {}),
    ):
        refused("POST", "runs/" + path, {"run_id": none, **body}, 404, "RESOURCE_DOES_NOT_EXIST", f"Run with id={none} not found")
    refused("POST", "runs/create", {"experiment_id": "987654321"}, 404, "RESOURCE_DOES_NOT_EXIST", "No Experiment with id=987654321 exists")
    for path, body, missing in (
        ("runs/log-metric", {"key": "m", "value": 1, "timestamp": 1}, "run_id"), ("runs/log-metric", {"run_id": run, "value": 1, "timestamp": 1}, "key"),
        ("runs/log-metric", {"run_id": run, "key": "m", "timestamp": 1}, "value"), ("runs/log-metric", {"run_id": run, "key": "m", "value": 1}, "timestamp"),
        ("runs/log-parameter", {"run_id": run}, "key"), ("runs/set-tag", {"run_id": run, "value": "x"}, "key"), ("experiments/create", {}, "name"), ("experiments/create", {"name": ""}, "name"),
    ):
        refused("POST", path, body, 400, "INVALID_PARAMETER_VALUE", f"Missing value for required parameter '{missing}'.")
    for body in ({"key": "m", "value": "x", "timestamp": 1}, {"key": "m", "value": 1, "timestamp": "x"}, {"key": 1, "value": 1, "timestamp": 1}, {"key": "m", "value": 1, "timestamp": 1, "step": "x"}):
        refused("POST", "runs/log-metric", {"run_id": run, **body}, 400, "INVALID_PARAMETER_VALUE", "Invalid value")
    refused("GET", "runs/get", {}, 400, "INVALID_PARAMETER_VALUE", "Missing value for required parameter 'run_id'.")
    refused("GET", "runs/get", {"run_id": "../x"}, 404, "RESOURCE_DOES_NOT_EXIST", "Run with id=../x not found")
    refused("GET", "experiments/get-by-name", {"experiment_name": mark + " none"}, 404, "RESOURCE_DOES_NOT_EXIST")
    refused("POST", "experiments/create", {"name": "x" * 501}, 400, "INVALID_PARAMETER_VALUE")
    same(call("POST", "runs/set-tag", {"run_id": run, "key": "unknown fields", "value": "1", "bogus": {"a": 1}}), (200, {}))
    same(call("POST", "runs/log-parameter", {"run_uuid": run, "run_id": run, "key": "empty", "value": ""}), (200, {}))
    same(client.get_run(run).data.params["empty"], "")
    answer = http.get(f"{uri}/version")
    same((answer.status_code, answer.text), (200, "3.17.2"))
    answer = http.get(f"{uri}/health")
    same((answer.status_code, answer.text), (200, "OK"))
    answer = http.get(f"{uri}/api/2.0/mlflow/bogus/route")
    same(answer.status_code, 404)


@flow
def keys():
    run = new_run()
    good = ["a", "A/b/c", "x.y", "with space", "colon:s", "under_score-dash", "日本/語", "größe", "١٢٣", "a" * 250, "é" * 250, "a..b", ".hidden", "-"]
    bad = ["", "/abs", "../up", "a/../b", "a//b", "a/", ".", "./a", "a/./b", "tab\t", "new\nline", "semi;colon", "emoji😀", "quo'te", "back\\slash", "a" * 251, "hash#", "per%cent", "com,ma", "nul\0", "..", "..a", "e\u0301"]
    wrong = []
    for path, body in (("runs/log-metric", {"value": 1, "timestamp": 1}), ("runs/log-parameter", {"value": "v"}), ("runs/set-tag", {"value": "v"})):
        for key in good + bad:
            status, answer = call("POST", path, {"run_id": run, "key": key, **body})
            if key in good and status != 200 or key in bad and (status, answer.get("error_code")) != (400, "INVALID_PARAMETER_VALUE"):
                wrong.append((path, key, status, str(answer)[:200]))
    assert not wrong, "\n".join(map(str, wrong))
    data = client.get_run(run).data
    same((set(data.metrics), set(data.params), {k for k in data.tags if not k.startswith("mlflow.")}), (set(good),) * 3)
    for key in ("日本/語", "with space", "colon:s"):
        same([m.value for m in client.get_metric_history(run, key)], [1.0])
        same(len(client.search_runs([client.get_run(run).info.experiment_id], f"metrics.`{key}` = 1")), 1)
    client.set_tag(run, "emoji", "😀 'quoted' \"twice\" \\ \n new")
    same(client.get_run(run).data.tags["emoji"], "😀 'quoted' \"twice\" \\ \n new")


@flow
def autologging():
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    made = mlflow.set_experiment(f"{mark} autolog").experiment_id
    # Plots and estimator.html are artifacts; so is what a search over parameters leaves.
    mlflow.sklearn.autolog(log_models=False, log_post_training_metrics=True, silent=True)
    x = np.array([[i, i % 7] for i in range(60)], float)
    y = (x[:, 0] > 30).astype(int)
    try:
        with mlflow.start_run() as run:
            fitted = LogisticRegression(C=0.5, max_iter=200).fit(x, y)
            fitted.score(x, y)
        with mlflow.start_run() as search:
            GridSearchCV(LogisticRegression(max_iter=200), {"C": [0.1, 1.0]}, cv=2).fit(x, y)
    finally:
        mlflow.sklearn.autolog(disable=True)
    got = client.get_run(run.info.run_id)
    same((got.data.params["C"], got.data.params["max_iter"], got.data.tags["estimator_name"]), ("0.5", "200", "LogisticRegression"))
    assert {"training_score", "training_accuracy_score", "training_log_loss"} <= set(got.data.metrics), got.data.metrics
    assert any(k.startswith("LogisticRegression_score") for k in got.data.metrics), got.data.metrics
    same([i.dataset.name for i in got.inputs.dataset_inputs], ["dataset"])
    children = client.search_runs([made], f"tags.mlflow.parentRunId = '{search.info.run_id}'")
    same(sorted(r.data.params["C"] for r in children), ["0.1", "1.0"])
    assert "best_C" in client.get_run(search.info.run_id).data.params


@flow
def threads():
    run, count, each = new_run(), 20, 30
    failures = []

    def batch(mine, *what):
        try:
            mine.log_batch(run, *what)
        except MlflowException as e:
            if "param_pk" not in str(e):
                raise
            mine.log_batch(run, *what)  # of two who log the same parameter at once, MLflow refuses one

    def work(n):
        try:
            mine = MlflowClient()
            for i in range(each):
                if i % 10 == 0:
                    batch(mine, [Metric("shared", n * each + i, 1, n * each + i), Metric(f"own/{n}", i, i, i)], [Param(f"p{n}-{i}", "v"), Param("same", "v")], [RunTag(f"t{n}", str(i))])
                else:
                    mine.log_metric(run, "shared", n * each + i, 1, n * each + i)
                    if i % 5 == 0:
                        mine.log_metric(run, f"own/{n}", i, i, i)
        except Exception as e:
            failures.append(repr(e))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    random.shuffle(workers)
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    same(failures, [])
    data = client.get_run(run).data
    same(data.metrics, {"shared": float(count * each - 1), **{f"own/{n}": 25.0 for n in range(count)}})
    same([m.step for m in client.get_metric_history(run, "shared")], list(range(count * each)))
    same([m.step for m in client.get_metric_history(run, "own/7")], list(range(0, each, 5)))
    same(len(data.params), count * 3 + 1)
    same({data.tags[f"t{n}"] for n in range(count)}, {"20"})


@flow
def asynchronous():
    mlflow.set_experiment(f"{mark} async")
    with mlflow.start_run() as run:
        for i in range(300):
            mlflow.log_metric("m", i, step=i, timestamp=i + 1, synchronous=False)
        mlflow.log_params({f"p{i}": i for i in range(150)}, synchronous=False)
        mlflow.log_metrics({f"many/{i}": i for i in range(50)}, step=1, synchronous=False)
        mlflow.set_tags({"t": "1"}, synchronous=False)
        mlflow.log_param("awaited", 1, synchronous=False).wait()
        mlflow.flush_async_logging()
    data = client.get_run(run.info.run_id).data
    same((data.metrics["m"], data.metrics["many/49"], len(data.params), data.tags["t"]), (299.0, 49.0, 151, "1"))
    same([m.step for m in client.get_metric_history(run.info.run_id, "m")], list(range(300)))


def main():
    failed, names = 0, sys.argv[1:] or [f.__name__ for f in flows]
    for f in [globals()[name] for name in names]:
        start = time.time()
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # the client prints the address of each run
                f()
        except Exception as e:
            failed += 1
            print(f"failed {f.__name__}: {type(e).__name__}: {e}\n{traceback.format_exc()}", flush=True)
            while mlflow.active_run():
                mlflow.end_run("FAILED")
        else:
            print(f"ok {f.__name__} ({time.time() - start:.1f} s)", flush=True)
    sys.exit(failed > 0)


main()
