#!/usr/bin/env bash
# Fails if generated code differs from its sources: regenerates it, and git must see no difference.
set -euo pipefail
cd "$(dirname "$0")/.."
generated=(graph/generated graph/model web/src/gql web/src/routeTree.gen.ts)
before=$(git status --porcelain -- "${generated[@]}"; git diff -- "${generated[@]}" | sha256sum)
go generate ./graph
(cd web && npm run --silent codegen >/dev/null)
after=$(git status --porcelain -- "${generated[@]}"; git diff -- "${generated[@]}" | sha256sum)
if [ "$before" != "$after" ]; then
  echo "generated code was stale and is fresh now: commit it" >&2
  git status --short -- "${generated[@]}" >&2
  exit 1
fi
