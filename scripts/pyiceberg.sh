#!/usr/bin/env bash
# Creates a Python environment with PyIceberg in the user's cache and prints its path. Tests use it as
# a client of the catalog. pip fetches the packages, pinned and verified by
# rest/iceberg/testdata/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
pins=$PWD/rest/iceberg/testdata/requirements.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millpond/pyiceberg
dir=$cache/$(sha256sum "$pins" | cut -c1-12)

if [ ! -e "$dir/.complete" ]; then
  python=$(command -v python3.11 || true)
  if [ -z "$python" ]; then
    echo "PyIceberg's test environment needs python3.11, with venv: install it" >&2
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
