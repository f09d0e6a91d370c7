set -eu
# The rows become the table lake.samples.penguins. Each has its line's number for an id, and is inserted where it is not there yet: run this as often as you like.
millpond sql 'CREATE SCHEMA IF NOT EXISTS lake.samples'
millpond sql 'CREATE TABLE IF NOT EXISTS lake.samples.penguins (
  id INTEGER, species VARCHAR, island VARCHAR, bill_length_mm DOUBLE, bill_depth_mm DOUBLE, flipper_length_mm INTEGER, body_mass_g INTEGER, sex VARCHAR, year INTEGER)'
awk -F, -v quote="'" '
  BEGIN { print "MERGE INTO lake.samples.penguins AS old USING (VALUES" }
  NR > 1 {
    printf "%s(%d", n++ ? ",\n" : "", NR - 1
    for (i = 1; i <= NF; i++) printf ", %s", $i == "NA" ? "NULL" : quote $i quote
    printf ")"
  }
  END {
    print ") AS new (id, species, island, bill_length_mm, bill_depth_mm, flipper_length_mm, body_mass_g, sex, year) ON old.id = new.id"
    print "WHEN NOT MATCHED THEN INSERT VALUES (new.id, new.species, new.island, new.bill_length_mm::DOUBLE, new.bill_depth_mm::DOUBLE,"
    print "  new.flipper_length_mm::INTEGER, new.body_mass_g::INTEGER, new.sex, new.year::INTEGER)"
  }' penguins.csv | millpond sql -
millpond sql 'SELECT species, count(*) AS birds FROM lake.samples.penguins GROUP BY species ORDER BY species'
