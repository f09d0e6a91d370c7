import { PostgreSQL, SQLDialect } from "@codemirror/lang-sql";

const more =
  "anti asof attach describe exclude explain glob ilike lambda macro pivot positional pragma qualify rename replace sample semi " +
  "show struct summarize try_cast unpivot using version timestamp at";
const types =
  "bigint bit blob boolean bool date decimal double float float4 float8 hugeint int int1 int2 int4 int8 integer interval json list long " +
  "map numeric real short smallint string struct text time timestamp timestamptz tinyint ubigint uhugeint uinteger union usmallint " +
  "utinyint uuid varchar";

/** Functions that are often needed; there are many more. */
export const functions = (
  "abs any_value approx_count_distinct arg_max arg_min array_agg avg bool_and bool_or ceil coalesce concat concat_ws contains corr count " +
  "cume_dist current_date date_diff date_part date_trunc day dense_rank epoch exp extract first first_value floor generate_series " +
  "greatest hour ifnull json_extract lag last last_value lead least len length list list_contains ln log lower ltrim max median min " +
  "minute mode month now ntile nullif percent_rank percentile_cont position power quantile_cont range rank regexp_extract " +
  "regexp_matches regexp_replace replace round row_number rtrim second split_part sqrt starts_with stddev strftime string_agg strptime " +
  "strlen struct_pack substring sum to_timestamp trim trunc try_cast typeof unnest upper uuid variance week year"
).split(" ");

/** DuckDB's SQL: PostgreSQL's words and its own, and "" around names. */
export const DuckDB = SQLDialect.define({
  keywords: `${PostgreSQL.spec.keywords ?? ""} ${more}`,
  types: `${PostgreSQL.spec.types ?? ""} ${types}`,
  builtin: functions.join(" "),
  doubleDollarQuotedStrings: true,
  operatorChars: "+-*/<>=~!@#%^&|`?:",
  identifierQuotes: '"',
  specialVar: "$?",
  caseInsensitiveIdentifiers: true,
});
