#!/usr/bin/env bash
# Starts the real binary on a free port and an empty data directory, and runs the browser tests on it.
set -euo pipefail
cd "$(dirname "$0")/.."
CHROMIUM=$(scripts/chromium.sh | tail -n 1)
export CHROMIUM
data=$(mktemp -d "${TMPDIR:-/tmp}/millpond-e2e.XXXXXX")
chmod 711 "$data"
./millpond serve --data-dir "$data" --listen 127.0.0.1:0 >"$data/out" 2>"$data/err" &
server=$!
finish() {
  status=$?
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  if [ "$status" != 0 ]; then tail -n 40 "$data/err" >&2; fi
  rm -rf "$data"
  exit "$status"
}
trap finish EXIT
for _ in $(seq 600); do
  grep -q "Set the administrator's password" "$data/out" && break
  kill -0 "$server" || { cat "$data/err" >&2; exit 1; }
  sleep 0.1
done
MILLPOND_URL=$(sed -n 's/^Millpond listens on //p' "$data/out")
MILLPOND_SETUP_URL=$(sed -n "s/^Set the administrator's password: //p" "$data/out")
export MILLPOND_URL MILLPOND_SETUP_URL
cd web && npm run --silent e2e
