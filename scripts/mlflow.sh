#!/usr/bin/env bash
# Creates a Python environment with MLflow in the user's cache and prints its path. pip fetches the
# packages, pinned and verified. scripts/mlflow.sh [client|client-2.22|server]:
#   client       the MLflow 3.17.2 client of the tests (rest/mlflow/testdata/requirements.txt)
#   client-2.22  the MLflow 2.22 client of make compat (requirements-2.22.txt)
#   server       the MLflow 3.17.2 server, with which make compat and make bench compare
#                (requirements-server.txt)
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-client} in
client) pins=requirements.txt ;;
client-2.22) pins=requirements-2.22.txt ;;
server) pins=requirements-server.txt ;;
*)
  echo "usage: scripts/mlflow.sh [client|client-2.22|server]" >&2
  exit 2
  ;;
esac
pins=$PWD/rest/mlflow/testdata/$pins
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millpond/mlflow
dir=$cache/$(sha256sum "$pins" | cut -c1-12)

if [ ! -e "$dir/.complete" ]; then
  python=$(command -v python3.11 || true)
  if [ -z "$python" ]; then
    echo "MLflow's test environment needs python3.11, with venv: install it" >&2
    exit 1
  fi
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9
  if [ ! -e "$dir/.complete" ]; then # no other process created it meanwhile
    rm -rf "$dir"
    "$python" -m venv "$dir"
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes --requirement "$pins"
    touch "$dir/.complete"
  fi
fi
echo "$dir"
