#!/usr/bin/env bash
# Fetches DuckDB's TPC-H extension, which generates the benchmark's data and queries, into the user's
# cache and prints its path. pip fetches it, pinned and verified by scripts/tpch.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
pins=$PWD/scripts/tpch.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millpond/tpch
file=$cache/$(sha256sum "$pins" | cut -c1-12)/tpch.duckdb_extension

if [ ! -e "$file" ]; then
  mkdir -p "$(dirname "$file")"
  work=$(mktemp -d "$cache/.fetch-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes --dest "$work" --requirement "$pins"
  python3 -m zipfile -e "$work"/*.whl "$work/unpacked"
  find "$work/unpacked" -name 'tpch.duckdb_extension' -exec mv {} "$file" \;
fi
echo "$file"
