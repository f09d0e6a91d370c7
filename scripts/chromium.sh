#!/usr/bin/env bash
# Prints the path of a Chromium, installing one with the system's package manager where there is none and that can be done.
set -euo pipefail
find_chromium() {
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" && return 0
  done
  for path in "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" /Applications/Chromium.app/Contents/MacOS/Chromium; do
    [ -x "$path" ] && { echo "$path"; return 0; }
  done
  return 1
}
if [ -n "${CHROMIUM:-}" ]; then echo "$CHROMIUM"; exit 0; fi
find_chromium && exit 0
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
{
  if command -v apt-get; then
    "${as_root[@]}" apt-get update -qq && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium
  elif command -v dnf; then
    "${as_root[@]}" dnf install -y -q chromium
  elif command -v apk; then
    "${as_root[@]}" apk add --quiet chromium
  elif command -v brew; then
    brew install --cask --quiet chromium
  fi
} >&2 || true
find_chromium && exit 0
echo "no Chromium: install it (Debian: apt-get install chromium), or name one in CHROMIUM" >&2
exit 1
