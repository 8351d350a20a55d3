"""Import spans that an OpenTelemetry collector has exported: OTLP as JSON lines.

A line is a batch of spans of several services, as the collector's file exporter writes it. Source:
https://opentelemetry.io/docs/specs/otlp/ (JSON encoding) and opentelemetry/proto/trace/v1.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._importers.spans import ROOT, spans_trace
from purgatory_spark._importers.table_source import TableSource, load_json
from purgatory_spark._spark.file_columns import file_name
from purgatory_spark._spark.files import CORRUPT, RAW, SOURCE

#: The names of a span's fields in OTLP, by field of the span import.
_NAMES: Mapping[str, str] = {
    "trace_id": "traceId",
    "span_id": "spanId",
    "parent_id": "parentSpanId",
    "service": "service.name",
    "operation": "name",
    "start": "startTimeUnixNano",
    "end": "endTimeUnixNano",
}
_SPAN_FIELDS = [name for field, name in _NAMES.items() if field != "service"]
# Times are 64-bit integers, which are text in JSON. Numbers are read as text, too.
_SCHEMA = f"""
resourceSpans ARRAY<STRUCT<
  resource: STRUCT<attributes: ARRAY<STRUCT<key: STRING, value: STRUCT<stringValue: STRING>>>>,
  scopeSpans: ARRAY<STRUCT<
    spans: ARRAY<STRUCT<{", ".join(f"{name}: STRING" for name in _SPAN_FIELDS)}>>>>>>,
{CORRUPT} STRING
"""


def import_otlp(
    spark: SparkSession,
    source: TableSource,
    *,
    timeout_ms: int = 1000,
    keys: str = "children",
    quantifier: str = "all",
) -> ImportedTrace:
    """Import an OTLP export as spans; see `spans.import_spans`.

    The host of a span is the attribute `service.name` of its resource. Lines of metrics or logs
    have no spans.
    """
    lines = load_json(spark, source, schema=_SCHEMA).withColumn(SOURCE, file_name())
    trace = spans_trace(
        _spans(lines), _NAMES, timeout_ms=timeout_ms, keys=keys, quantifier=quantifier
    )
    trace.format = "otlp"
    return trace


def _spans(lines: DataFrame) -> DataFrame:
    """Return a row for each span and each malformed line, with the columns of `_NAMES`."""
    resources = lines.select(
        SOURCE,
        CORRUPT,
        F.explode_outer("resourceSpans").alias("resource"),
    ).where(F.col(CORRUPT).isNotNull() | F.col("resource").isNotNull())
    service = F.filter(
        "resource.resource.attributes", lambda attribute: attribute["key"] == "service.name"
    )
    spans = resources.select(
        SOURCE,
        CORRUPT,
        F.try_element_at(service, F.lit(1))["value"]["stringValue"].alias("service.name"),
        F.explode_outer(F.flatten("resource.scopeSpans.spans")).alias("span"),
    ).where(F.col(CORRUPT).isNotNull() | F.col("span").isNotNull())
    columns = [F.col("span")[name].alias(name) for name in _SPAN_FIELDS]
    whole = F.to_json(F.struct("`service.name`", *columns))
    parent = F.coalesce(F.col("span")["parentSpanId"], F.lit(""))
    return spans.select(
        SOURCE,
        CORRUPT,
        F.coalesce(CORRUPT, whole).alias(RAW),
        "`service.name`",
        *[
            column
            for column, name in zip(columns, _SPAN_FIELDS, strict=True)
            if name != "parentSpanId"
        ],
        F.when(parent == "", ROOT).otherwise(parent).alias("parentSpanId"),
    )
