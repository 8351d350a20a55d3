"""`purgatory-broker serve`: run a cluster until a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from purgatory_broker._cli.printing import describe_failure, print_metrics
from purgatory_broker.cluster.admin_server import CONTROL_PORT, ControlServer
from purgatory_broker.cluster.async_cluster import AsyncCluster, collecting_less
from purgatory_broker.cluster.broker_panel import broker_panel
from purgatory_broker.replication.recorder import Recorder
from purgatory_broker.settings import ClusterSettings
from purgatory_command_line.command import command
from purgatory_command_line.converters import LocalPath, whole_number
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.metrics_server import metrics_url, parse_listen_address, serve_metrics
from purgatory_command_line.output import Output, OutputOptions
from purgatory_command_line.settings_options import FieldsOf
from purgatory_command_line.stop_signals import StopRequest
from request_purgatory.dashboard import serve_dashboard
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.metrics.prometheus import PurgatoryCollector

#: Kafka's port.
PORT = 9092

#: Name, number of partitions and replication factor of a topic; -1 is the cluster's default.
NewTopic = tuple[str, int, int]


#: By setting, the heading of the help that begins with it.
_HEADINGS = {
    "nodes": "Nodes and listeners",
    "flush_messages": "Disk",
    "ssl_keystore_location": "TLS, logins and ACLs",
    "auto_create_topics_enable": "Topics and replication",
    "socket_request_max_bytes": "Connections and sizes",
    "log_segment_bytes": "Log segments, retention and compaction",
    "group_min_session_timeout_ms": "Classic groups",
    "group_consumer_session_timeout_ms": "Groups of the consumer protocol",
    "offsets_topic_num_partitions": "Committed offsets",
    "group_share_delivery_count_limit": "Share groups",
    "transaction_state_log_num_partitions": "Transactions",
    "producer_byte_rate": "Quotas",
    "fetch_purgatory_purge_interval_requests": "Purgatories",
}
#: By setting of text, what its option takes.
_METAVARS = {
    "host": "HOST",
    "listeners": "NAME://HOST:PORT,...",
    "advertised_listeners": "NAME://HOST:PORT,...",
    "listener_security_protocol_map": "NAME:PROTOCOL,...",
    "ssl_key_password": "PASSWORD",
    "ssl_client_auth": "WORD",
    "sasl_enabled_mechanisms": "NAME,...",
    "super_users": "TYPE:NAME;...",
    "log_cleanup_policy": "WORD,...",
    "group_consumer_assignors": "NAME,...",
    "group_consumer_migration_policy": "WORD",
}


def _topics(_type: Any, tokens: Sequence[Any]) -> list[NewTopic]:
    topics = []
    for token in tokens:
        name, *counts = token.value.split(":")
        if not name or len(counts) > 2 or not all(count.isdecimal() for count in counts):
            raise ValueError(
                f"expected NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS, got {token.value!r}"
            )
        partitions, replicas = [*map(int, counts), -1, -1][:2]
        topics.append((name, partitions, replicas))
    return topics


def _users(_type: Any, tokens: Sequence[Any]) -> dict[str, str]:
    users: dict[str, str] = {}
    for token in tokens:
        user, _, password = token.value.partition(":")
        if not (user and password):
            raise ValueError("expected NAME:PASSWORD")
        if user in users:
            raise ValueError(f"expected {user!r} once")
        users[user] = password
    return users


@command(describe_failure)
def serve(
    *,
    topic: Annotated[
        list[str], Parameter(converter=_topics, metavar="NAME[:PARTITIONS[:REPLICAS]]")
    ]
    | None = None,
    port: Annotated[int | None, Parameter(converter=whole_number, metavar="PORT")] = None,
    control: Annotated[int, Parameter(converter=whole_number, metavar="PORT")] = CONTROL_PORT,
    record: LocalPath | None = None,
    metrics_listen: Annotated[str | None, Parameter(metavar="[HOST:]PORT")] = None,
    dashboard: Annotated[int | None, Parameter(converter=whole_number, metavar="PORT")] = None,
    schema_registry: Annotated[
        int | None, Parameter(converter=whole_number, metavar="PORT")
    ] = None,
    settings: Annotated[
        ClusterSettings,
        FieldsOf(
            ClusterSettings,
            headings=_HEADINGS,
            without=("topic_defaults", "port"),
            changes={
                **{name: Parameter(metavar=form) for name, form in _METAVARS.items()},
                "sasl_users": Annotated[
                    list[str],
                    Parameter(name="--sasl-user", converter=_users, metavar="NAME:PASSWORD"),
                ],
            },
        ),
    ],
    output: OutputOptions,
) -> ExitCode:
    """Run a light Kafka cluster for tests and development.

    It runs until SIGINT (Ctrl-C) or SIGTERM.

    Args:
        topic: A topic to create, unless the data directory has it, with as many partitions and
            replicas; may be repeated.
        port: The port of node 0, 9092 without `--listeners`; node n has the port + n. 0 takes free
            ports.
        control: Take the other commands of `purgatory-broker` at this port of 127.0.0.1; 0 is a
            free port.
        record: Record requests that wait as a trace in this folder, for `purgatory import`.
        metrics_listen: Serve /metrics for Prometheus at this address; the host is 127.0.0.1 unless
            given, port 0 is a free port.
        dashboard: Serve a live page of the cluster, with buttons for faults, at this port of
            127.0.0.1; 0 is a free port.
        schema_registry: Serve a schema registry at this port of 127.0.0.1; 0 is a free port.
        settings: The cluster.
        output: See `Output`.

    Returns:
        The code of the signal.
    """
    topics: Sequence[Any] = topic or ()
    if port is None:
        port = PORT if settings.listeners is None else 0
    settings = replace(settings, port=port)
    with collecting_less():
        serving = _serve(
            settings,
            topics,
            control,
            record,
            output,
            metrics_listen,
            dashboard,
            schema_registry,
        )
        stop = asyncio.run(serving)
    if record is not None:
        output.console.print(
            f"recorded; next: purgatory import {record} --out NAME", soft_wrap=True, markup=False
        )
    return stop.exit_code


async def _serve(
    settings: ClusterSettings,
    topics: Sequence[NewTopic],
    control_port: int,
    record: Path | None,
    output: Output,
    metrics_listen: str | None,
    dashboard: int | None,
    schema_registry: int | None,
) -> StopRequest:
    stop, stopped = StopRequest(), asyncio.Event()

    def note(number: int) -> None:
        stop.number = number
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows, where Ctrl-C raises KeyboardInterrupt
            loop.add_signal_handler(number, note, number)
    async with AsyncExitStack() as stack:
        recorder = None if record is None else stack.enter_context(Recorder(record))
        cluster = await stack.enter_async_context(AsyncCluster(settings, recorder=recorder))
        control_server = await stack.enter_async_context(ControlServer(cluster, control_port))
        for topic in topics:
            _create_topic(cluster, *topic)
        pages: dict[str, str] = {}
        if metrics_listen is not None:
            pages["metrics"] = stack.enter_context(_serve_metrics(metrics_listen))
        if dashboard is not None:
            page = serve_dashboard(port=dashboard, title="broker", panels=[broker_panel(cluster)])
            pages["dashboard"] = stack.enter_context(page).url
        if schema_registry is not None:
            pages["schema_registry"] = await cluster.start_schema_registry(port=schema_registry)
        _print_addresses(output, cluster, control_server.address, pages)
        await stopped.wait()
        metrics = cluster.metrics()
    print_metrics(output.console, metrics)
    return stop


@contextmanager
def _serve_metrics(address: str) -> Iterator[str]:
    """Serve the metrics of all purgatories while the context is open."""
    host, port = parse_listen_address(address)
    with serve_metrics(PurgatoryCollector(), host, port) as bound:
        yield metrics_url(host, bound)


def _create_topic(cluster: AsyncCluster, name: str, partitions: int, replicas: int) -> None:
    existing = cluster.controller.topics.get(name)
    if existing is None:
        cluster.create_topic(name, partitions=partitions, replication_factor=replicas)
        return
    present = {
        "partitions": (partitions, len(existing.partitions)),
        "replicas": (replicas, len(existing.partitions[0].replicas)),
    }
    for what, (requested, number) in present.items():
        if requested not in (-1, number):
            raise InvalidArgumentError(
                f"the number of {what} of the existing topic {name!r}", str(number), requested
            )


def _print_addresses(
    output: Output, cluster: AsyncCluster, control: str, pages: dict[str, str]
) -> None:
    addresses = {"bootstrap_servers": cluster.bootstrap_servers, "control": control}
    output.print_result(addresses | pages, indent=None)
    folder = cluster.settings.data_dir
    storage = "in memory" if folder is None else f"in {folder}"
    output.console.print(f"bootstrap servers: [bold]{cluster.bootstrap_servers}[/]", soft_wrap=True)
    output.console.print(
        f"nodes: {cluster.settings.nodes}, data {storage}; control: {control}; Ctrl-C ends it",
        soft_wrap=True,
    )
    for name, url in pages.items():
        output.console.print(f"{name}: {url}", soft_wrap=True)
