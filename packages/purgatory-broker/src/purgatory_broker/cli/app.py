"""The commands `purgatory-broker ...`: run a cluster, and control one that is running."""

from __future__ import annotations

import asyncio
import errno
import inspect
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from purgatory_broker.cli.printing import PRINTERS, print_metrics
from purgatory_broker.cluster.admin_server import ControlClient, ControlServer
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.cluster.broker_panel import broker_panel
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.cluster.collector import collecting_less
from purgatory_broker.cluster.commands import COMMANDS
from purgatory_broker.cluster.json_values import to_json
from purgatory_broker.metadata.controller import ControllerError
from purgatory_broker.replication.recorder import Recorder, RecorderError
from purgatory_broker.settings import ClusterSettings
from request_purgatory.command_line.command import NO_NEGATIVES, command
from request_purgatory.command_line.converters import LocalPath, whole_number
from request_purgatory.command_line.exit_codes import ExitCode
from request_purgatory.command_line.output import Output, OutputOptions
from request_purgatory.command_line.settings_options import FieldsOf, option_type
from request_purgatory.command_line.stop_signals import StopRequest
from request_purgatory.command_line.version import version_text
from request_purgatory.dashboard import serve_dashboard
from request_purgatory.errors import InvalidArgumentError, PurgatoryError

_PROGRAM = Group("Program", sort_key=9)
_EPILOGUE = (
    "`purgatory-broker COMMAND --help` describes a command.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad input, 4 something to install is missing, "
    "130 and 143 stopped by SIGINT and SIGTERM."
)
#: Kafka's port, and the one below it for the control commands.
PORT = 9092
CONTROL_PORT = 9091

#: Name, number of partitions and replication factor of a topic; -1 is the cluster's default.
NewTopic = tuple[str, int, int]


def describe_failure(error: Exception) -> tuple[ExitCode, str]:
    """Return the exit code of a failed command on the broker, and the message for its user."""
    if isinstance(error, RecorderError):  # pyarrow is not installed
        return ExitCode.MISSING_DEPENDENCY, str(error)
    if isinstance(error, (InvalidArgumentError, ControllerError)):
        return ExitCode.BAD_INPUT, str(error)
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        options = "--port and --control-port choose others, 0 free ones"
        return ExitCode.FAILED, f"{str(error).strip()}; {options}"
    if isinstance(error, (PurgatoryError, OSError)):
        return ExitCode.FAILED, str(error)
    return ExitCode.FAILED, f"{type(error).__name__}: {error}\n(-v shows the traceback)"


def make_app() -> App:
    """Return the command line of `purgatory-broker`."""
    app = App(
        name="purgatory-broker",
        help="Run a light Kafka cluster on loopback, and control it.",
        help_epilogue=_EPILOGUE,
        version=version_text("purgatory-broker"),
        group_commands=_PROGRAM,
        default_parameter=NO_NEGATIVES,
    )
    app.command(
        App(
            name="serve",
            default_command=serve,
            group=Group("Cluster", sort_key=1),
            help="Run a light Kafka cluster for tests and development.",
            help_epilogue="Example: `purgatory-broker serve --nodes 3 --min-insync-replicas 2 "
            "--topic orders:4`",
        )
    )
    controls = Group("Control of a running cluster", sort_key=2)
    for position, name in enumerate(control_commands()):
        app.command(
            App(
                name=name.replace("_", "-"),
                default_command=_control_command(name),
                group=controls,
                sort_key=position,
                help_epilogue="",
            )
        )
    app.register_install_completion_command(
        help="Install completion for the current shell.", group=_PROGRAM, help_epilogue=""
    )
    return app


# -- serve


def _topics(_type: Any, tokens: Sequence[Any]) -> list[NewTopic]:
    """Return topics from tokens `NAME[:PARTITIONS[:REPLICAS]]`.

    Raises:
        ValueError: A token is something else.
    """
    topics = []
    for token in tokens:
        name, *counts = token.value.split(":")
        if not name or len(counts) > 2 or not all(each.isdecimal() for each in counts):
            raise ValueError(
                f"expected NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS, got {token.value!r}"
            )
        partitions, replicas = [*map(int, counts), -1, -1][:2]
        topics.append((name, partitions, replicas))
    return topics


def _users(_type: Any, tokens: Sequence[Any]) -> dict[str, str]:
    """Return users and passwords from tokens `NAME:PASSWORD`.

    Raises:
        ValueError: A token is something else. The message does not repeat the password.
    """
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
    port: Annotated[int | None, Parameter(converter=whole_number, metavar="N")] = None,
    control_port: Annotated[int, Parameter(converter=whole_number, metavar="N")] = CONTROL_PORT,
    record: LocalPath | None = None,
    metrics_listen: Annotated[str | None, Parameter(metavar="[HOST:]PORT")] = None,
    dashboard: Annotated[int | None, Parameter(converter=whole_number, metavar="PORT")] = None,
    settings: Annotated[
        ClusterSettings,
        FieldsOf(
            ClusterSettings,
            "Cluster settings",
            without=("topic_defaults", "port"),
            changes={
                "sasl_users": Annotated[
                    list[str],
                    Parameter(name="--sasl-user", converter=_users, metavar="NAME:PASSWORD"),
                ]
            },
        ),
    ],
    output: OutputOptions,
) -> ExitCode:
    """Run a cluster until SIGINT (Ctrl-C) or SIGTERM.

    Args:
        topic: A topic to create, unless the data directory has it, with as many partitions and
            replicas; may be repeated.
        port: The port of node 0, 9092 without `--listeners`; node n has the port + n. 0 takes free
            ports.
        control_port: The port for the other commands of `purgatory-broker`; 0 is a free one.
        record: Record requests that wait as a trace in this folder, for `purgatory import`.
        metrics_listen: Serve /metrics for Prometheus at this address; the host is 127.0.0.1 unless
            given, port 0 is a free port.
        dashboard: Serve a live page of the cluster, with buttons for faults, at this port of
            127.0.0.1; 0 is a free port.
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
        serving = _serve(settings, topics, control_port, record, output, metrics_listen, dashboard)
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
) -> StopRequest:
    """Run a cluster until a signal, and print its metrics.

    Returns:
        Which signal it was.
    """
    stop, stopped = StopRequest(), asyncio.Event()

    def note(number: int) -> None:
        stop.number = number
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows, where Ctrl-C raises KeyboardInterrupt
            loop.add_signal_handler(number, note, number)
    recorder = None if record is None else Recorder(record)
    try:
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(AsyncCluster(settings, recorder=recorder))
            control = await stack.enter_async_context(ControlServer(cluster, control_port))
            for topic in topics:
                _create_topic(cluster, *topic)
            pages: dict[str, str] = {}
            if metrics_listen is not None:
                pages["metrics"] = stack.enter_context(_serve_metrics(metrics_listen))
            if dashboard is not None:
                page = serve_dashboard(
                    port=dashboard, title="broker", panels=[broker_panel(cluster)]
                )
                pages["dashboard"] = stack.enter_context(page).url
            _print_addresses(output, cluster, control.address, pages)
            await stopped.wait()
            metrics = cluster.metrics()
    finally:
        if recorder is not None:
            recorder.close()
    print_metrics(output.console, metrics)
    return stop


@contextmanager
def _serve_metrics(address: str) -> Iterator[str]:
    """Serve the metrics of all purgatories while the context is open.

    Yields:
        Where they are served.

    Raises:
        InvalidArgumentError: The address is not one, or can't be listened on.
        ModuleNotFoundError: The extra `metrics` is not installed.
    """
    # Only here: the extra `broker` does not have prometheus-client.
    from request_purgatory.metrics.metrics_server import (
        metrics_url,
        parse_listen_address,
        serve_metrics,
    )
    from request_purgatory.metrics.prometheus import PurgatoryCollector

    host, port = parse_listen_address(address)
    with serve_metrics(PurgatoryCollector(), host, port) as bound:
        yield metrics_url(host, bound)


def _create_topic(cluster: AsyncCluster, name: str, partitions: int, replicas: int) -> None:
    """Create a topic of the command line, unless the data directory has it.

    Raises:
        InvalidArgumentError: The data directory has it with other partitions or replicas.
    """
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
    """Print where the cluster can be reached, and what else is served, by name."""
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


# -- control


class _RemoteCluster(ClusterClient):
    """A running cluster of another process, which this process neither starts nor stops."""

    def __init__(self, address: str) -> None:
        self._control = ControlClient(address)

    def start(self) -> _RemoteCluster:
        """Return the cluster, which is running."""
        return self

    def close(self) -> None:
        """Close the connection."""
        self._control.close()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes."""
        return str(self._control.call("bootstrap_servers", {}))

    def call(self, command: str, /, **arguments: Any) -> Any:
        """Run a command by its name.

        Returns:
            What the command returned.
        """
        return self._control.call(command, arguments)


def control_commands() -> list[str]:
    """Return the names of the cluster's commands that are commands here too."""
    return [name for name in COMMANDS if name != "bootstrap_servers"]


def _control_command(name: str) -> Callable[..., ExitCode]:
    """Return a command with the parameters and the docstring of a cluster's command."""
    method = COMMANDS[name]

    def control(
        *values: Any,
        address: Annotated[
            str, Parameter(help="Where the cluster takes commands.", metavar="HOST:PORT")
        ] = f"127.0.0.1:{CONTROL_PORT}",
        output: OutputOptions,
        **options: Any,
    ) -> ExitCode:
        with _RemoteCluster(address) as cluster:
            result = getattr(cluster, name)(*values, **options)
        if result is not None:
            output.print_result(to_json(result))
            if not output.json:
                PRINTERS[name](output.console, result)
        return ExitCode.OK

    own = inspect.signature(control, eval_str=True).parameters
    parameters = [
        each.replace(
            kind=each.POSITIONAL_ONLY if each.kind is each.POSITIONAL_OR_KEYWORD else each.kind,
            annotation=_CONDITIONS.get(each.annotation) or option_type(each.annotation),
        )
        for each in inspect.signature(method, eval_str=True).parameters.values()
        if each.name not in ("self", "configs")  # a topic's settings have no option
    ]
    parameters += [own["address"], own["output"]]
    control.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    control.__annotations__ = {each.name: each.annotation for each in parameters}
    control.__doc__ = _help(method.__doc__ or "")
    return command(describe_failure)(control)


def _condition(types: tuple[Callable[[str], Any], ...]) -> Callable[..., tuple[Any, ...]]:
    """Return a converter of values that are joined by colons."""

    def convert(_type: Any, tokens: Sequence[Any]) -> tuple[Any, ...]:
        # Names of topics have no colon, but numbers come last in any case.
        values = tokens[0].value.rsplit(":", len(types) - 1)
        if len(values) != len(types):
            raise ValueError(
                f"expected {len(types)} values with colons between them, got {tokens[0].value!r}"
            )
        return tuple(type_(value) for type_, value in zip(types, values, strict=True))

    return convert


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


#: The options of `wait-for` whose values have several parts, by the type of the parameter.
_CONDITIONS: dict[Any, Any] = {
    tuple[str, int] | None: Annotated[
        str | None, Parameter(converter=_condition((str, int)), metavar="NAME:COUNT")
    ],
    tuple[int, int] | None: Annotated[
        str | None, Parameter(converter=_condition((int, int)), metavar="ID:HITS")
    ],
    tuple[str, int, list[int]] | None: Annotated[
        str | None,
        Parameter(
            converter=_condition((str, int, _numbers)), metavar="TOPIC:PARTITION:NODE,NODE..."
        ),
    ],
}


def _help(docstring: str) -> str:
    """Return a method's docstring in the command line's words."""
    names = "|".join(control_commands())
    text = re.sub(rf"`({names})`", lambda match: match.group().replace("_", "-"), docstring)
    return re.sub(r"^Return ", "Print ", text)
