"""The command `purgatory stream`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any

from cyclopts import Group, Parameter
from rich.markup import escape

from purgatory_command_line.command import command, print_error
from purgatory_command_line.converters import LocalPath, whole_number
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.metrics_server import metrics_url, parse_listen_address, serve_metrics
from purgatory_command_line.output import Output, OutputOptions
from purgatory_command_line.settings_options import FieldsOf, Given
from purgatory_command_line.stop_signals import stop_on_signals
from purgatory_spark._cli import session
from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._cli.options import column_mapping, name_value_pairs
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._rows.checks import TIME_UNITS
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import AGGREGATES
from purgatory_spark._spark.console_filter import silence_spark
from purgatory_spark._spark.session import create_session
from purgatory_spark._stream.endpoints.address import (
    AddressOptions,
    is_kafka_address,
    parse_endpoints,
)
from purgatory_spark._stream.endpoints.connector import (
    AVRO,
    connector_settings,
    create_kafka_session,
    default_connector,
    spark_package,
)
from purgatory_spark._stream.endpoints.folders import FORMATS, FolderSource
from purgatory_spark._stream.endpoints.kafka import KEYS
from purgatory_spark._stream.job import ROUTES, StreamSettings
from purgatory_spark._stream.metrics import StreamMetrics, StreamPanel, open_metrics_file
from purgatory_spark._stream.progress import BatchProgress, print_batch
from purgatory_spark._stream.run import StreamPlan, run_stream
from request_purgatory.dashboard import serve_dashboard
from request_purgatory.errors import InvalidArgumentError

_METRICS = Group("Metrics", sort_key=7)

OnBatch = Callable[[BatchProgress], object]


def _columns(option: str, text: str) -> Any:
    """Return the annotation of an option that maps fields to columns."""
    parameter = Parameter(name=option, converter=column_mapping, metavar="FIELD=COLUMN", help=text)
    return Annotated[list[str], parameter]


@command(describe_failure)
def stream(
    requests: str,
    events: str,
    /,
    *,
    out: Annotated[str, Parameter(metavar="ADDRESS")],
    plan: Annotated[
        Given,
        FieldsOf(
            StreamPlan,
            "Batches",
            only=("checkpoint", "trigger_interval", "available_now", "drain", "idle_timeout"),
            changes={
                "trigger_interval": Parameter(metavar="SECONDS"),
                "idle_timeout": Parameter(metavar="SECONDS"),
            },
        ),
    ],
    settings: Annotated[
        StreamSettings,
        FieldsOf(StreamSettings, "State", changes={"route": Parameter(choices=ROUTES)}),
    ],
    addresses: Annotated[
        AddressOptions,
        FieldsOf(
            AddressOptions,
            "Inputs and output",
            changes={
                "format": Parameter(choices=FORMATS),
                "kafka_key": Parameter(choices=KEYS),
                "kafka_options": Annotated[
                    list[str],
                    Parameter(
                        name="--kafka-option", converter=name_value_pairs, metavar="NAME=VALUE"
                    ),
                ],
            },
        ),
    ],
    mapping: Annotated[
        Given,
        FieldsOf(
            TableMapping,
            "Own columns",
            # Of requests with an end, which those of a stream are without.
            without=("status", "unanswered"),
            changes={
                "columns": _columns(
                    "--map",
                    "The column of a field of requests, where inputs have other columns than the "
                    "schema's: arrived_at, request_id, watch_keys, host and others, as in an "
                    "import. Of a topic also kafka_key, kafka_timestamp, kafka_partition, "
                    "kafka_offset and kafka_headers.NAME.",
                ),
                "event_columns": _columns(
                    "--map-events",
                    "The column of a field of events: key, occurred_at, host, amount.",
                ),
                "time_unit": Parameter(choices=tuple(TIME_UNITS), help="Unit of numeric times."),
                "aggregate": Parameter(choices=AGGREGATES),
            },
            defaults={"columns": {}},
        ),
    ],
    kafka_connector: Annotated[
        str | None, Parameter(group="Inputs and output", metavar="CONNECTOR")
    ] = None,
    metrics: Annotated[LocalPath | None, Parameter(group=_METRICS)] = None,
    metrics_listen: Annotated[str | None, Parameter(group=_METRICS, metavar="[HOST:]PORT")] = None,
    dashboard: Annotated[
        int | None, Parameter(group=_METRICS, converter=whole_number, metavar="PORT")
    ] = None,
    output: OutputOptions,
) -> ExitCode:
    """Compute how requests end while they arrive, with a streaming job.

    Args:
        requests: A folder that files are added to, kafka://HOST:PORT/TOPIC, or
            rate://ROWS_PER_SECOND.
        events: As for the requests.
        out: Where outcomes and late rows are written: a folder, or kafka://HOST:PORT/TOPIC.
        plan: The checkpoint, and when the stream ends.
        settings: The state.
        addresses: What applies to inputs and output of a kind.
        mapping: The inputs' columns.
        kafka_connector: Spark's Kafka connector: Maven coordinates or jars, or `provided` for the
            one that Spark is installed with.
        metrics: A file to append a line of JSON to for each batch.
        metrics_listen: Serve /metrics for Prometheus at this address; the host is 127.0.0.1 unless
            given, port 0 is a free port.
        dashboard: Serve a live page of the stream at this port of 127.0.0.1; 0 is a free port.
        output: See `Output`.
    """
    endpoints = parse_endpoints(requests, events, out, addresses, _mapping(mapping))
    stream_plan = StreamPlan(endpoints=endpoints, settings=settings, **plan)
    for source in (stream_plan.endpoints.requests, stream_plan.endpoints.events):
        if isinstance(source, FolderSource):
            source.require_folder()
    has_avro = addresses.avro_requests is not None or addresses.avro_events is not None
    if has_avro and kafka_connector is None:
        kafka_connector = f"{default_connector()},{spark_package(AVRO)}"
    create = _session_factory((requests, events, out), kafka_connector)
    with ExitStack() as stack:
        # Before Spark starts: a file that can't be written and an address that is taken are
        # refused.
        observers = _open_metrics(metrics, metrics_listen, output, stack)
        if dashboard is not None:
            panel = StreamPanel({"requests": requests, "events": events, "out": out})
            page = serve_dashboard(port=dashboard, title="stream", panels=[panel.panel()])
            stack.enter_context(page)
            output.console.print(f"dashboard: {page.url}", soft_wrap=True)
            observers.append(panel.add)
        spark = stack.enter_context(session.open_session(create))
        stop = stack.enter_context(stop_on_signals())

        def on_batch(batch: BatchProgress) -> None:
            print_batch(output.console, batch)
            for observe in observers:
                observe(batch)

        def should_stop() -> bool:
            if stop and not output.verbose:
                silence_spark(spark)
            return bool(stop)

        run_stream(spark, stream_plan, on_batch, should_stop)
    outcomes, late = stream_plan.endpoints.out.locations
    output.print_result(
        {"outcomes": outcomes, "late_rows": late, "stopped_by": stop.name if stop else None}
    )
    output.console.print(
        f"outcomes: [bold]{escape(outcomes)}[/], late rows: [bold]{escape(late)}[/]",
        soft_wrap=True,
    )
    if not stop:
        return ExitCode.OK
    print_error(f"stopped by {stop.name}; the same command resumes from {stream_plan.checkpoint}")
    return stop.exit_code


def _mapping(given: Given) -> TableMapping | None:
    columns = given.get("columns", {})
    if not columns:
        for name, value in given.items():
            raise InvalidArgumentError(
                "map_events" if name == "event_columns" else name, "used with --map", value
            )
        return None
    if not given.get("event_columns"):
        raise TraceFormatError(
            "the events of a stream are an input of their own: map their columns, too, with "
            "--map-events key=COLUMN --map-events occurred_at=COLUMN"
        )
    return TableMapping(**given)


def _session_factory(addresses: tuple[str, ...], connector: str | None) -> session.SessionFactory:
    """Return what makes the session: with Spark's Kafka connector if an address needs it."""
    if any(is_kafka_address(address) for address in addresses):
        connector_settings(connector)  # raises for a connector that is not one
        return partial(create_kafka_session, connector)
    if connector:
        raise InvalidArgumentError("kafka_connector", "used with a kafka:// address", connector)
    return create_session


def _open_metrics(
    file: LocalPath | None, address: str | None, output: Output, stack: ExitStack
) -> list[OnBatch]:
    """Open the metrics file and serve metrics, as the options say, until the stack is closed."""
    observers: list[OnBatch] = []
    if address is not None:
        metrics = StreamMetrics()
        host, port = parse_listen_address(address)
        bound = stack.enter_context(serve_metrics(metrics, host, port))
        output.console.print(f"metrics: {metrics_url(host, bound)}", soft_wrap=True)
        observers.append(metrics.add)
    if file is not None:
        observers.append(stack.enter_context(open_metrics_file(file)).add)
    return observers
