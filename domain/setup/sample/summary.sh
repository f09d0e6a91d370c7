set -eu
# One row for each species, from the table of penguins.
millpond sql 'CREATE TABLE IF NOT EXISTS lake.samples.species_summary (
  species VARCHAR, birds BIGINT, bill_length_mm DOUBLE, flipper_length_mm DOUBLE, body_mass_g DOUBLE, heaviest_g INTEGER)'
millpond sql '
  MERGE INTO lake.samples.species_summary AS old
  USING (
    SELECT species, count(*) AS birds, round(avg(bill_length_mm), 2) AS bill_length_mm, round(avg(flipper_length_mm), 2) AS flipper_length_mm,
      round(avg(body_mass_g), 1) AS body_mass_g, max(body_mass_g) AS heaviest_g
    FROM lake.samples.penguins GROUP BY species
  ) AS new
  ON old.species = new.species
  WHEN MATCHED THEN UPDATE SET birds = new.birds, bill_length_mm = new.bill_length_mm, flipper_length_mm = new.flipper_length_mm,
    body_mass_g = new.body_mass_g, heaviest_g = new.heaviest_g
  WHEN NOT MATCHED THEN INSERT VALUES (new.species, new.birds, new.bill_length_mm, new.flipper_length_mm, new.body_mass_g, new.heaviest_g)'
millpond sql 'SELECT * FROM lake.samples.species_summary ORDER BY body_mass_g DESC'
