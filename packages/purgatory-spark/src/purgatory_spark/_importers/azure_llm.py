"""Import the Azure LLM inference traces.

They have the arrivals and token counts of a production service, but no service times. Source:
https://github.com/Azure/AzurePublicDataset.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._importers.imported_trace import CheckedTables, ImportedTrace
from purgatory_spark._importers.table_source import TableSource, read_source
from purgatory_spark._rows import checks
from purgatory_spark._rows.row_counts import RowCounts
from purgatory_spark._spark.file_columns import with_row_text
from purgatory_spark._spark.files import CORRUPT, RAW, SOURCE

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def import_azure_llm(
    spark: SparkSession,
    source: TableSource,
    *,
    timeout_ms: int = 10_000,
    ms_per_context_token: float = 0.25,
    ms_per_generated_token: float = 30.0,
) -> ImportedTrace:
    """Import inference traces; each file is a host.

    A request arrives at its row's `TIMESTAMP`, and is complete when its tokens are generated. The
    trace does not record that time. It is *derived* from a cost per token, and labelled as derived.
    The default costs are of a large model's order of magnitude.
    """
    rows = with_row_text(read_source(spark, source, COLUMNS))
    context, generated = (F.col(name).cast("string").try_cast("bigint") for name in COLUMNS[1:])
    rows = rows.withColumn("arrived_us", checks.parse_us("TIMESTAMP", "iso"))
    service_ms = context * F.lit(float(ms_per_context_token)) + generated * F.lit(
        float(ms_per_generated_token)
    )
    parsed = rows.select(
        SOURCE,
        RAW,
        CORRUPT,
        *COLUMNS,
        "arrived_us",
        checks.add_ms(F.col("arrived_us"), service_ms).alias("ended_us"),
        context.alias("context"),
        generated.alias("generated"),
    )
    flagged = checks.flag_rejects(
        parsed,
        [
            checks.malformed_check(),
            *[(f"null {name}", F.col(name).isNull()) for name in COLUMNS],
            *checks.time_checks("TIMESTAMP", F.col("arrived_us")),
            ("unparsable ContextTokens", F.col("context").isNull()),
            ("unparsable GeneratedTokens", F.col("generated").isNull()),
            ("negative ContextTokens", F.col("context") < 0),
            ("negative GeneratedTokens", F.col("generated") < 0),
            (
                "too many tokens",
                F.col("ended_us").isNull() | (F.col("ended_us") > checks.MAX_TIME_US),
            ),
        ],
    ).persist()
    accepted = _with_request_ids(checks.accepted_rows(flagged))
    requests = accepted.select(
        "host",
        "request_id",
        F.lit("inference (derived service time)").alias("request_type"),
        F.timestamp_micros("arrived_us").alias("arrived_at"),
        F.lit(timeout_ms).cast("int").alias("timeout_ms"),
        F.array("request_id").alias("watch_keys"),
        F.lit("count").alias("aggregate"),
        F.lit(1.0).alias("threshold"),
        F.lit("any").alias("quantifier"),
    )
    events = accepted.select(
        "host",
        F.col("request_id").alias("key"),
        F.timestamp_micros("ended_us").alias("occurred_at"),
        F.col("generated").cast("double").alias("amount"),
    )
    rejects = checks.rejected_rows(flagged)
    counts = RowCounts.of({"rows in": flagged}, rejects)
    return ImportedTrace(
        format="azure-llm",
        tables=CheckedTables(requests, events, rejects, counts),
        notes=[
            f"Service times are DERIVED, not recorded: {ms_per_context_token:g} ms per context "
            f"token + {ms_per_generated_token:g} ms per generated token."
        ],
        cached=[flagged],
    )


def _with_request_ids(rows: DataFrame) -> DataFrame:
    """Add request ids, the row numbers of each host in order of time, equal at every import.

    Files such as code.csv and code.csv.gz are of one host, and their rows are numbered together.
    """
    host = F.regexp_replace(SOURCE, r"\.csv(\.gz|\.bz2)?$|\.parquet$", "")
    in_order = Window.partitionBy(host).orderBy("arrived_us", "context", "generated")
    number = F.lpad(F.row_number().over(in_order).cast("string"), 9, "0")
    return rows.select(
        host.alias("host"),
        F.concat_ws("-", host, number).alias("request_id"),
        "arrived_us",
        "ended_us",
        "generated",
    )
