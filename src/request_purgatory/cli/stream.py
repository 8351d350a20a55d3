"""The command `purgatory stream`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from request_purgatory.cli.session import open_console, open_session

if TYPE_CHECKING:
    from request_purgatory.pipeline.stream.progress import BatchProgress

OK = 0


def stream(options: argparse.Namespace) -> int:
    """Run it; the exit code."""
    from functools import partial

    from rich.markup import escape

    from request_purgatory.cli.stop_signals import stop_on_signals
    from request_purgatory.errors import InvalidArgumentError
    from request_purgatory.pipeline.spark.console_filter import hush
    from request_purgatory.pipeline.spark.session import create_session
    from request_purgatory.pipeline.stream.endpoints.address import (
        AddressOptions,
        endpoints,
        is_kafka,
    )
    from request_purgatory.pipeline.stream.endpoints.connector import session_with_connector
    from request_purgatory.pipeline.stream.job import StreamSettings
    from request_purgatory.pipeline.stream.progress import print_batch
    from request_purgatory.pipeline.stream.run import StreamPlan, run_stream

    names = ("shards", "route", "delay_ms", "remember_ms", "max_shard_mb")
    addresses = (options.requests, options.events, options.out)
    of_addresses = ("format", "files_per_batch", "rows_per_batch", "kafka_options")
    plan = StreamPlan(
        endpoints=endpoints(
            *addresses, AddressOptions(**{name: getattr(options, name) for name in of_addresses})
        ),
        checkpoint=options.checkpoint,
        settings=StreamSettings(**{name: getattr(options, name) for name in names}),
        every_s=options.every,
        available=options.available,
        finish=options.finish,
        idle_s=options.idle,
    )
    with_kafka = any(is_kafka(address) for address in addresses)
    if options.kafka_connector and not with_kafka:
        raise InvalidArgumentError(
            "kafka_connector", "for a kafka:// address", options.kafka_connector
        )
    make = (
        partial(session_with_connector, options.kafka_connector) if with_kafka else create_session
    )
    with ExitStack() as until_end:
        # What can't be written or listened on is told before Spark is started.
        heard = _metrics(options, until_end)
        spark, console = until_end.enter_context(open_session(make))

        def told(batch: BatchProgress) -> None:
            print_batch(console, batch)
            for hear in heard:
                hear(batch)

        stop = until_end.enter_context(stop_on_signals())

        def stopped() -> bool:
            if stop and not options.verbose:
                hush(spark)
            return bool(stop)

        run_stream(spark, plan, told, stopped)
    outcomes, late = map(escape, plan.endpoints.out.places)
    console.print(f"outcomes: [bold]{outcomes}[/], late rows: [bold]{late}[/]", soft_wrap=True)
    if stop:
        print(
            f"purgatory: stopped by {stop.name}; the same command goes on from {options.checkpoint}",
            file=sys.stderr,
        )
        return stop.exit_code
    return OK


def _metrics(
    options: argparse.Namespace, until_end: ExitStack
) -> list[Callable[[BatchProgress], None]]:
    from request_purgatory.pipeline.stream.metrics import (
        StreamMetrics,
        metrics_file,
        parse_address,
        serve_metrics,
    )

    heard: list[Callable[[BatchProgress], None]] = []
    if options.metrics_listen is not None:
        metrics = StreamMetrics()
        host, port = parse_address(options.metrics_listen)
        bound = until_end.enter_context(serve_metrics(metrics, host, port))
        open_console().print(
            f"metrics: http://{f'[{host}]' if ':' in host else host}:{bound}/metrics",
            soft_wrap=True,
        )
        heard.append(metrics.add)
    if options.metrics is not None:
        heard.append(until_end.enter_context(metrics_file(options.metrics)).add)
    return heard
