set -eu
# Who lives where.
awk -F, '
  NR > 1 { birds[$2 "," $1]++; total[$2]++ }
  END {
    for (i in total) {
      printf "%-10s %3d birds:", i, total[i]
      for (k in birds) { split(k, p, ","); if (p[1] == i) printf " %s %d", p[2], birds[k] }
      print ""
    }
  }' penguins.csv | sort
