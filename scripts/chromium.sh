#!/usr/bin/env bash
# Prints the path of a Chromium. Without one, it tries to install it with the system's package manager.
# The headless shell, which has no user interface, is enough and uses less of the processor.
set -euo pipefail
find_chromium() {
  for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
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
    "${as_root[@]}" apt-get update -qq
    for package in chromium-headless-shell chromium; do
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" && break
    done
  elif command -v dnf; then
    "${as_root[@]}" dnf install -y -q chromium
  elif command -v apk; then
    "${as_root[@]}" apk add --quiet chromium
  elif command -v brew; then
    brew install --cask --quiet chromium
  fi
} >&2 || true
find_chromium && exit 0
echo "no Chromium: install it (Debian: apt-get install chromium), or set CHROMIUM to its path" >&2
exit 1
