set -eu
# Averages of one species, bird by bird as they come in.
echo "Measuring $SPECIES penguins"
awk -F, -v species="$SPECIES" '
  NR > 1 && $1 == species && $3 != "NA" {
    n++; bill += $3; depth += $4; flipper += $5; mass += $6
    if ($6 > heaviest) heaviest = $6
    if (n % 25 == 0) { printf "  %3d birds: mean mass %.0f g so far\n", n, mass / n; fflush(); system("sleep 0.15") }
  }
  END {
    printf "%d birds measured\n", n
    printf "bill     %6.2f mm long, %.2f mm deep\n", bill / n, depth / n
    printf "flipper  %6.2f mm\n", flipper / n
    printf "mass     %6.0f g, the heaviest %d g\n", mass / n, heaviest
  }' penguins.csv
