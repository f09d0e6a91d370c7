set -eu
# A report over all of them: how well does a flipper tell the mass?
awk -F, '
  NR > 1 && $5 != "NA" && $6 != "NA" {
    n++; x = $5; y = $6; sx += x; sy += y; sxx += x * x; syy += y * y; sxy += x * y
  }
  END {
    slope = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    r = (n * sxy - sx * sy) / (sqrt(n * sxx - sx * sx) * sqrt(n * syy - sy * sy))
    printf "\033[1mPenguins of the Palmer Archipelago\033[0m\n"
    printf "%d birds measured, %.0f g on average\n", n, sy / n
    printf "Each millimetre of flipper goes with \033[36m%.1f g\033[0m of penguin (r = %.2f).\n", slope, r
  }' penguins.csv
echo "Data: palmerpenguins, CC0, doi:10.5281/zenodo.3960218"
