set -eu
# Every row has eight fields, and every species has measurements.
echo "Checking penguins.csv ($(wc -c < penguins.csv) bytes)"
awk -F, '
  NR == 1 { fields = NF; next }
  NF != fields { printf "line %d has %d fields, not %d\n", NR, NF, fields > "/dev/stderr"; bad++ }
  { seen[$1]++; for (i = 1; i <= NF; i++) if ($i == "NA" || $i == "") { missing[$1]++; break } }
  END {
    for (s in seen) printf "%-10s %3d birds, %d with something not measured\n", s, seen[s], missing[s]
    if (missing["Gentoo"] + missing["Adelie"] + missing["Chinstrap"]) print "Some birds were not fully measured; they are left out of the averages." > "/dev/stderr"
    exit bad > 0
  }' penguins.csv
echo "The data is sound."
