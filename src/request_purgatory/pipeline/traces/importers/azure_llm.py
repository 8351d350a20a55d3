"""The Azure LLM inference traces.

Arrivals and token counts of a production service, without service times.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.traces.importers.delimited import malformed, read_rows
from request_purgatory.pipeline.traces.importers.imported import (
    CORRUPT,
    LAST_US,
    RAW,
    SOURCE,
    Imported,
    good_rows,
    later_us,
    parse_us,
    rejected_rows,
    set_aside,
    time_checks,
)

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def import_azure_llm(
    spark: SparkSession,
    files: list[Path],
    *,
    timeout_ms: int = 10_000,
    ms_per_context_token: float = 0.25,
    ms_per_generated_token: float = 30.0,
) -> Imported:
    """Requests and events of inference traces; each file is a host.

    A request arrives at its row's time and is complete when its tokens are made. The trace does not
    say when that was: the service time is *derived*, from a cost for each token, and labelled so.

    Args:
        timeout_ms: every request's timeout.
        ms_per_context_token, ms_per_generated_token: the costs; the defaults are of the order that
            a large model's prompt processing and token-by-token generation have.

    Raises:
        TraceFormatError: a file lacks a column or can't be read.
    """
    rows = read_rows(spark, files, COLUMNS)
    context, generated = (F.col(name).cast("string").try_cast("bigint") for name in COLUMNS[1:])
    arrived_us = parse_us(rows, "TIMESTAMP", "iso")
    service_ms = context * F.lit(float(ms_per_context_token)) + generated * F.lit(
        float(ms_per_generated_token)
    )
    parsed = rows.select(
        SOURCE,
        RAW,
        CORRUPT,
        *COLUMNS,
        arrived_us.alias("arrived_us"),
        later_us(arrived_us, service_ms).alias("ended_us"),
        context.alias("context"),
        generated.alias("generated"),
    )
    flagged = set_aside(
        parsed,
        [
            malformed(),
            *[(f"null {name}", F.col(name).isNull()) for name in COLUMNS],
            *time_checks("TIMESTAMP", F.col("arrived_us")),
            ("unparsable ContextTokens", F.col("context").isNull()),
            ("unparsable GeneratedTokens", F.col("generated").isNull()),
            ("negative ContextTokens", F.col("context") < 0),
            ("negative GeneratedTokens", F.col("generated") < 0),
            ("too many tokens", F.col("ended_us").isNull() | (F.col("ended_us") > LAST_US)),
        ],
    ).persist()
    host = F.regexp_replace(SOURCE, r"\.csv(\.gz|\.bz2)?$|\.parquet$", "")
    # The rows have no ids. Numbered in order of time they get the same ones at every import; by
    # host, because two files may be of one (code.csv and code.csv.gz).
    number = F.row_number().over(
        Window.partitionBy(host).orderBy("arrived_us", "context", "generated")
    )
    good = good_rows(flagged).select(
        host.alias("host"),
        F.concat_ws("-", host, F.lpad(number.cast("string"), 9, "0")).alias("request_id"),
        "arrived_us",
        "ended_us",
        "generated",
    )
    requests = good.select(
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
    events = good.select(
        "host",
        F.col("request_id").alias("key"),
        F.timestamp_micros("ended_us").alias("occurred_at"),
        F.col("generated").cast("double").alias("amount"),
    )
    return Imported(
        format="azure-llm",
        requests=requests,
        events=events,
        rejects=rejected_rows(flagged),
        rows={"rows": flagged},
        notes=[
            f"Service times are DERIVED, not recorded: {ms_per_context_token:g} ms per context token + "
            f"{ms_per_generated_token:g} ms per generated token."
        ],
        cached=[flagged],
    )
