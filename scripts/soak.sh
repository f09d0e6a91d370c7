#!/usr/bin/env bash
# Runs the random tests with new seeds each time, for some hours: soak.sh [hours]. A failing test
# prints its seed.
set -euo pipefail
cd "$(dirname "$0")/.."
end=$((SECONDS + ${1:-1} * 3600))
soak() { go test -race -vet=off -count=1 -timeout 24h "$@"; }
while [ "$SECONDS" -lt "$end" ]; do
  soak ./agent/engine/enginetest -run 'TestRandom|TestWritersWhileItIsOptimized|TestTrino$/writers_of_every_kind' \
    -random.seed=0 -random.cases=100 -equality.cases=100 -optimize.cases=25 -mixed.operations=1000
  MILLPOND_TEST_ROUNDS=200 soak ./agent/worker -run 'TestKilling'
  soak ./domain/job ./domain/lake ./rest ./store ./store/objects -rapid.checks=5000 -rapid.seed=0 \
    -run 'TestAnyOrderOfEvents|TestAnyCircleIsFound|TestEveryFollowerGetsEveryByte|TestAPageIsCutToItsBytes|TestCanonicalOfAnything|TestLinesHoldEveryByte|TestAnyReadReturnsTheBytes|TestArchiveGivesBackWhatItTook'
done
