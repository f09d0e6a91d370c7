#!/usr/bin/env bash
# Runs the flows of the real MLflow clients (rest/mlflow/testdata/flows.py) against the built
# binary, with the 2.22 client and then with the 3.17.2 client. "scripts/compat.sh reference" runs
# them against MLflow's own server on the same PostgreSQL: a new flow must first pass there. Further
# arguments are the names of flows.
set -euo pipefail
cd "$(dirname "$0")/.."
against=${1:-millpond}
[ $# -eq 0 ] || shift
if [ ! -x millpond ]; then
  echo "there is no binary: run make build" >&2
  exit 1
fi
new=$(scripts/mlflow.sh client)
old=$(scripts/mlflow.sh client-2.22)

dir=$(mktemp -d)
chmod 711 "$dir" # PostgreSQL may run as another user
pids=()
clean() {
  status=$?
  for pid in "${pids[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  [ "$status" = 0 ] || tail -n 40 "$dir"/*.log >&2
  rm -rf "$dir"
}
trap clean EXIT
set -m # each server has a process group of its own

port() { "$new/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# await waits until the last started server answers at a URL.
await() {
  "$new/bin/python" - "$1" "${pids[-1]}" <<'PY'
import os, requests, sys, time
url, pid = sys.argv[1], int(sys.argv[2])
for _ in range(600):
    try:
        if requests.get(url, timeout=5).ok:
            sys.exit()
    except requests.ConnectionError:
        os.kill(pid, 0)
    time.sleep(0.2)
sys.exit(f"{url} does not answer")
PY
}

server=http://127.0.0.1:$(port)
./millpond serve --data-dir "$dir/data" --listen "${server#http://}" --no-samples --no-local-agent > "$dir/millpond.log" 2>&1 &
pids+=($!)
await "$server/readyz"

case $against in
millpond)
  # The one-time link of the first start sets the administrator's password.
  token=$("$new/bin/python" - "$server/api/v1" "$dir/millpond.log" <<'PY'
import re, requests, sys
server, log = sys.argv[1], open(sys.argv[2]).read()
administrator = {"token": re.search(r"/setup\?token=(\S+)", log)[1], "email": "ada@example.com", "name": "Ada", "password": "correct horse battery"}
session = requests.post(server + "/auth/setup", json=administrator).json()["access_token"]
print(requests.post(server + "/settings/api-keys", json={"name": "compat", "role": "editor"}, headers={"Authorization": "Bearer " + session}).json()["secret"])
PY
  )
  export MLFLOW_TRACKING_URI=$server/api/v1/mlflow MLFLOW_TRACKING_TOKEN=$token
  ;;
reference)
  reference=$(scripts/mlflow.sh server)
  database=$("$reference/bin/python" - "$(cat "$dir/data/database.url")" <<'PY'
import psycopg2, sys, urllib.parse
connection = psycopg2.connect(sys.argv[1])
connection.autocommit = True
connection.cursor().execute("CREATE DATABASE mlflow")
print(urllib.parse.urlsplit(sys.argv[1])._replace(scheme="postgresql+psycopg2", path="/mlflow").geturl())
PY
  )
  export MLFLOW_TRACKING_URI=http://127.0.0.1:$(port) MLFLOW_TRACKING_TOKEN=
  (cd "$dir" && PATH=$reference/bin:$PATH MLFLOW_DISABLE_TELEMETRY=true MLFLOW_TRACKING_URI='' exec mlflow server --backend-store-uri "$database" \
    --artifacts-destination "$dir/artifacts" --host 127.0.0.1 --port "${MLFLOW_TRACKING_URI##*:}") > "$dir/mlflow.log" 2>&1 &
  pids+=($!)
  await "$MLFLOW_TRACKING_URI/health"
  ;;
*)
  echo "usage: scripts/compat.sh [millpond|reference [flow …]]" >&2
  exit 2
  ;;
esac

status=0
for client in "$old" "$new"; do
  echo "MLflow client $("$client/bin/python" -c 'from mlflow.version import VERSION; print(VERSION)')"
  "$client/bin/python" rest/mlflow/testdata/flows.py "$@" || status=1
done
exit $status
