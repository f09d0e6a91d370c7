#!/usr/bin/env bash
# Copies DuckDB's compressed extensions to agent/engine/extensions/<os>_<arch>, where the engine embeds
# them. pip fetches them from the Python package index, pinned and verified by scripts/extensions.txt,
# into the user's cache. Usage: extensions.sh [amd64|arm64]...; the default is this build's.
set -euo pipefail
cd "$(dirname "$0")/.."
pins=$PWD/scripts/extensions.txt
version=$(sed -n 's/^duckdb-extension-avro==\([0-9.]*\).*/\1/p' "$pins")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millpond/extensions/$version-$(sha256sum "$pins" | cut -c1-12)

# fetch fills a platform's cache completely or not at all.
fetch() {
  local platform=$1 dir=$2 work
  work=$(mktemp -d "$(dirname "$dir")/.fetch-XXXXXX")
  trap 'rm -rf "$work"' RETURN
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    --platform "$platform" --dest "$work/wheels" --requirement "$pins"
  mkdir "$work/files"
  for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/unpacked"
  done
  find "$work/unpacked" -name '*.duckdb_extension' -exec mv {} "$work/files/" \;
  for name in avro httpfs iceberg; do
    gzip -9 -n "$work/files/$name.duckdb_extension"
  done
  mv "$work/files" "$dir"
}

mkdir -p "$cache"
if [ $# -eq 0 ]; then set -- "$(go env GOARCH)"; fi
for arch in "$@"; do
  case $arch in
    amd64) platform=manylinux2014_x86_64 ;;
    arm64) platform=manylinux2014_aarch64 ;;
    *) echo "there are no extensions for $arch: amd64 and arm64 only" >&2; exit 1 ;;
  esac
  if [ ! -d "$cache/linux_$arch" ]; then fetch "$platform" "$cache/linux_$arch"; fi
  mkdir -p "agent/engine/extensions/linux_$arch"
  cp "$cache/linux_$arch"/*.gz "agent/engine/extensions/linux_$arch/"
done
