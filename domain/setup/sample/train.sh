set -eu
# A model that tells the species, trained on the table. Its run is under Experiments.
if ! command -v python3 > /dev/null; then
  echo "python3 is not installed here, so nothing is trained"
  exit 0
fi
exec python3 train.py
