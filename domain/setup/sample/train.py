"""Tells the species of a penguin from four measurements, and logs how it learns that.

It needs nothing but Python: a softmax regression, trained by gradient descent, that talks to
MLflow's protocol. With the package mlflow the same takes a few lines, and no settings either.
"""

import csv
import io
import json
import math
import os
import random
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

EXPERIMENT = "Sample: species of penguins"
FEATURES = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
EPOCHS, SEED = 100, 7
RATE = float(os.environ.get("LEARNING_RATE", "0.5"))


def call(path, body=None):
    """Calls MLflow's protocol, and returns the answer, or None for what does not exist."""
    request = urllib.request.Request(
        os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/" + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"], "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise SystemExit(f"{path}: {error.read().decode()}")


def experiment():
    found = call("experiments/get-by-name?experiment_name=" + urllib.parse.quote(EXPERIMENT))
    if found:
        return found["experiment"]["experiment_id"]
    return call("experiments/create", {"name": EXPERIMENT, "tags": [{"key": "sample", "value": "true"}]})["experiment_id"]


def penguins():
    """Returns the measured penguins of the table: features, and the species."""
    query = "SELECT species, " + ", ".join(FEATURES) + " FROM lake.samples.penguins WHERE body_mass_g IS NOT NULL ORDER BY id"
    table = subprocess.run(["millpond", "sql", "--format", "csv", query], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = list(csv.DictReader(io.StringIO(table)))
    columns = [[float(row[f]) for row in rows] for f in FEATURES]
    for column in columns:
        mean = sum(column) / len(column)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in column) / len(column))
        column[:] = [(v - mean) / deviation for v in column]
    return [[1.0, *features] for features in zip(*columns)], [row["species"] for row in rows]


def chances(weights, x):
    scores = [sum(w * v for w, v in zip(row, x)) for row in weights]
    most = max(scores)
    powers = [math.exp(s - most) for s in scores]
    return [p / sum(powers) for p in powers]


def measure(weights, birds, classes):
    """Returns the mean loss and the share of birds whose species is told right."""
    loss = right = 0
    for x, species in birds:
        p = chances(weights, x)
        loss -= math.log(max(p[classes.index(species)], 1e-12))
        right += classes[p.index(max(p))] == species
    return loss / len(birds), right / len(birds)


def step(weights, birds, classes):
    gradient = [[0.0] * len(weights[0]) for _ in weights]
    for x, species in birds:
        for c, p in enumerate(chances(weights, x)):
            for f, v in enumerate(x):
                gradient[c][f] += (p - (classes[c] == species)) * v / len(birds)
    for row, slopes in zip(weights, gradient):
        row[:] = [w - RATE * g for w, g in zip(row, slopes)]


def main():
    run = call("runs/create", {"experiment_id": experiment(), "start_time": int(time.time() * 1000)})["run"]["info"]["run_id"]
    features, species = penguins()  # after the run began, so that its lineage has the table
    classes = sorted(set(species))
    birds = list(zip(features, species))
    random.Random(SEED).shuffle(birds)
    cut = len(birds) * 4 // 5
    train, test = birds[:cut], birds[cut:]
    parameters = {"model": "softmax regression", "learning_rate": RATE, "epochs": EPOCHS, "seed": SEED, "features": ", ".join(FEATURES), "birds": len(birds)}
    call("runs/log-batch", {"run_id": run, "params": [{"key": k, "value": str(v)} for k, v in parameters.items()]})
    call("runs/log-inputs", {"run_id": run, "datasets": [{
        "tags": [{"key": "mlflow.data.context", "value": "training"}],
        "dataset": {"name": "lake.samples.penguins", "digest": str(len(birds)), "source_type": "millpond", "source": json.dumps({"table": "lake.samples.penguins"})},
    }]})
    weights = [[0.0] * (1 + len(FEATURES)) for _ in classes]
    points = []
    for epoch in range(1, EPOCHS + 1):
        step(weights, train, classes)
        for name, part in (("train", train), ("test", test)):
            loss, accuracy = measure(weights, part, classes)
            for key, value in ((name + "/loss", loss), (name + "/accuracy", accuracy)):
                points.append({"key": key, "value": value, "step": epoch, "timestamp": int(time.time() * 1000)})
        if epoch % 10 == 0:
            call("runs/log-batch", {"run_id": run, "metrics": points})
            points = []
    loss, accuracy = measure(weights, test, classes)
    call("runs/update", {"run_id": run, "status": "FINISHED", "end_time": int(time.time() * 1000)})
    print(f"{len(train)} birds taught {len(classes)} species; of {len(test)} others {accuracy:.0%} are told right (loss {loss:.3f}).")


main()
