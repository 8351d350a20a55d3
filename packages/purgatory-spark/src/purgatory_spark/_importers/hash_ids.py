"""Import traces of an LLM serving system with the blocks of its prefix cache.

A line is a JSON object with the arrival in ms, the length of the prompt in tokens, and the ids of
the blocks that the prompt consists of, such as

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}

Source: the traces of Mooncake, https://github.com/kvcache-ai/Mooncake.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._importers.columns import map_rows
from purgatory_spark._importers.imported_trace import CheckedTables, ImportedTrace
from purgatory_spark._importers.table_source import TableSource, read_source
from purgatory_spark._rows.mapping import TableMapping

COLUMNS = ("timestamp", "input_length", "hash_ids")
_SERVICE_MS = "input_length x ms_per_context_token"


def import_hash_ids(
    spark: SparkSession,
    source: TableSource,
    *,
    timeout_ms: int = 10_000,
    ms_per_context_token: float = 0.25,
) -> ImportedTrace:
    """Import a trace of requests and the cache blocks of their prompts.

    A request waits until all its blocks are in the cache. Blocks that an earlier request has filled
    count at once (aggregate `max`). Others are filled when the request has processed its prompt.
    The trace does not record that time. It is *derived* from a cost per token, and labelled as
    derived. No block leaves the cache.
    """
    rows = read_source(spark, source, COLUMNS)
    length = F.col("input_length").cast("string").try_cast("double")
    rows = rows.withColumn(
        _SERVICE_MS,
        # A length that is not a number must not become a request that is never answered.
        F.coalesce(length * F.lit(float(ms_per_context_token)), F.lit(float("inf"))).cast("string"),
    )
    trace = map_rows(
        rows,
        TableMapping(
            {"arrived_at": "timestamp", "service_ms": _SERVICE_MS, "watch_keys": "hash_ids"},
            time_unit="ms",
            timeout_ms=timeout_ms,
            aggregate="max",
        ),
        cache=True,
    )
    # Its requests have a type, which no column has.
    requests = trace.requests.withColumn("request_type", F.lit("prompt (derived service time)"))
    tables = CheckedTables(requests, trace.events, trace.rejects, trace.tables.counts)
    notes = [
        "A request waits until all blocks of its prompt are in the cache, and fills those that are "
        "not.",
        f"Service times are DERIVED, not recorded: {ms_per_context_token:g} ms per token of the "
        "prompt.",
    ]
    return ImportedTrace("hash-ids", tables, notes, trace.cached)
