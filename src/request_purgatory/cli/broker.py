"""The commands `purgatory broker`, which runs a cluster, and `purgatory control`, which does something to it."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from request_purgatory.broker.cluster.async_cluster import AsyncCluster
    from request_purgatory.broker.settings import ClusterSettings

OK = 0
FAILED = 1
BAD_INPUT = 2
MISSING_TOOL = 4
PORT = 9092
CONTROL_PORT = 9091
CONTROL_ADDRESS = f"127.0.0.1:{CONTROL_PORT}"

#: The commands of `control`: the arguments in their order, and the options, each with its type.
_CONTROLS: dict[str, tuple[str, dict[str, type], dict[str, type]]] = {
    "create-topic": ("make a topic", {"name": str}, {"partitions": int, "replication_factor": int}),
    "describe": ("a topic's partitions, with every replica's offsets", {"topic": str}, {}),
    "metrics": ("the metrics of every node, by purgatory", {}, {}),
    "freeze": ("have a node fetch nothing any more as a follower", {"node": int}, {}),
    "thaw": ("undo freeze", {"node": int}, {}),
    "lag": (
        "have all that passes between a node and the others take so long",
        {"node": int, "lag_ms": int},
        {},
    ),
    "cut-off": ("let nothing pass between a node and the others", {"node": int}, {}),
    "reconnect": ("undo cut-off", {"node": int}, {}),
    "kill": ("end a node at once", {"node": int}, {}),
    "stop": ("end a node in an orderly way", {"node": int}, {}),
    "restart": ("start a node that was killed or stopped", {"node": int}, {}),
    "move-leader": (
        "make another in-sync replica the leader",
        {"topic": str, "partition": int, "node": int},
        {},
    ),
    "fail-requests": (
        "answer requests of an API with an error",
        {"api": str, "error": str},
        {"times": int, "node": int},
    ),
    "befall-responses": (
        "let something befall responses of an API: delay, drop, corrupt or disconnect",
        {"api": str, "kind": str},
        {"times": int, "node": int, "delay_ms": int, "seed": int},
    ),
    "clear-faults": ("let nothing go wrong any more with requests and responses", {}, {}),
}


def add_broker_commands(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add both to the command line; `command` makes a sub-parser by name, help and example."""
    broker = command(
        "broker",
        "run a light Kafka cluster on loopback, for tests and development",
        "broker --nodes 3 --set min_insync_replicas=2 --topic orders:4",
        makes_whole=False,
    )
    broker.add_argument("--nodes", type=int, default=1, metavar="N", help="how many (1)")
    broker.add_argument(
        "--port",
        type=int,
        default=PORT,
        help=f"of the first node, the next ones follow; 0: any ({PORT})",
    )
    broker.add_argument(
        "--control",
        type=int,
        default=CONTROL_PORT,
        metavar="PORT",
        help=f"for `control`; 0: any ({CONTROL_PORT})",
    )
    broker.add_argument(
        "--data", type=Path, metavar="DIR", help="keep segment files here (in memory, unless given)"
    )
    broker.add_argument(
        "--record",
        type=Path,
        metavar="DIR",
        help="record what waits as a trace, for `purgatory import`",
    )
    broker.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="make it; may be repeated",
    )
    broker.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting, by Kafka's name with dots or underscores; may be repeated",
    )
    control = command(
        "control",
        "do something to a cluster that runs: faults, leaders, nodes",
        "control befall-responses Produce delay --delay-ms 500 --times 3",
        makes_whole=False,
    )
    control.add_argument(
        "--address",
        default=CONTROL_ADDRESS,
        metavar="HOST:PORT",
        help=f"where it runs ({CONTROL_ADDRESS})",
    )
    actions = control.add_subparsers(
        title="actions", required=True, metavar="ACTION", dest="action"
    )
    for name, (told, arguments, choices) in _CONTROLS.items():
        action = actions.add_parser(name, help=told, description=told[0].upper() + told[1:] + ".")
        for argument, kind in arguments.items():
            action.add_argument(argument, type=kind)
        for choice, kind in choices.items():
            action.add_argument(f"--{choice.replace('_', '-')}", type=kind, dest=choice)


def run_broker_command(options: argparse.Namespace) -> int:
    """Run one of them; the exit code."""
    try:
        from request_purgatory.broker.metadata.controller import ControllerError
        from request_purgatory.errors import InvalidArgumentError, PurgatoryError
    except ModuleNotFoundError as missing:
        print(
            f"purgatory: the Python package {missing.name!r} is not installed.\n"
            "The broker needs the extra [broker]: pip install 'request-purgatory[broker]'",
            file=sys.stderr,
        )
        return MISSING_TOOL
    try:
        return _broker(options) if options.command == "broker" else _control(options)
    except (PurgatoryError, ControllerError, OSError) as error:
        if options.verbose:
            logging.getLogger(__name__).exception("the command failed")
        print(f"purgatory: {error}", file=sys.stderr)
        return BAD_INPUT if isinstance(error, (InvalidArgumentError, ControllerError)) else FAILED


# -- broker


def _broker(options: argparse.Namespace) -> int:
    settings = _settings(options)
    topics = [_topic(text) for text in options.topic]
    return asyncio.run(_serve(options, settings, topics))


def _settings(options: argparse.Namespace) -> ClusterSettings:
    from request_purgatory.broker.settings import ClusterSettings
    from request_purgatory.errors import InvalidArgumentError

    known = {
        each.name: each
        for each in fields(ClusterSettings)
        if each.name not in ("nodes", "port", "data_dir", "topic_defaults")
    }
    given: dict[str, Any] = {}
    for text in options.set:
        name, equals, value = text.partition("=")
        name = name.replace(".", "_")
        if not equals or name not in known:
            raise InvalidArgumentError(
                "--set", f"NAME=VALUE with a name out of {', '.join(sorted(known))}", text
            )
        try:
            given[name] = _value(str(known[name].type), value)
        except ValueError:
            raise InvalidArgumentError(
                f"--set {name}", f"of the type {known[name].type}", value
            ) from None
    return ClusterSettings(nodes=options.nodes, port=options.port, data_dir=options.data, **given)


def _value(kind: str, text: str) -> Any:
    if "None" in kind and text.lower() in ("none", "-1", ""):
        return None
    if kind.startswith("bool"):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    return float(text) if kind.startswith("float") else int(text)


def _topic(text: str) -> tuple[str, int, int]:
    from request_purgatory.errors import InvalidArgumentError

    name, *counts = text.split(":")
    if len(counts) > 2 or not all(each.isdigit() for each in counts):
        raise InvalidArgumentError(
            "--topic", "NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS", text
        )
    partitions, replicas = [*map(int, counts), -1, -1][:2]
    return name, partitions, replicas


async def _serve(
    options: argparse.Namespace, settings: ClusterSettings, topics: list[tuple[str, int, int]]
) -> int:
    from request_purgatory.broker.cluster.admin_server import ControlServer
    from request_purgatory.broker.cluster.async_cluster import AsyncCluster
    from request_purgatory.broker.replication.recorder import Recorder
    from request_purgatory.cli.session import open_console

    console = open_console()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows, where Ctrl-C raises.
            loop.add_signal_handler(number, ended.set)
    recorder = None if options.record is None else Recorder(options.record)
    try:
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(AsyncCluster(settings, recorder=recorder))
            control = await stack.enter_async_context(ControlServer(cluster, options.control))
            for name, partitions, replicas in topics:
                if name not in cluster.controller.topics:
                    cluster.create_topic(name, partitions=partitions, replication_factor=replicas)
            console.print(f"bootstrap servers: [bold]{cluster.bootstrap}[/]", soft_wrap=True)
            kept = "in memory" if settings.data_dir is None else f"in {settings.data_dir}"
            console.print(
                f"nodes: {settings.nodes}, data {kept}; control: {control.address}; Ctrl-C ends it",
                soft_wrap=True,
            )
            await ended.wait()
            _print_metrics(console, cluster)
    finally:
        if recorder is not None:
            recorder.close()
    if options.record is not None:
        console.print(
            f"recorded; next: purgatory import {options.record} --out NAME",
            soft_wrap=True,
            markup=False,
        )
    return OK


def _print_metrics(console: Console, cluster: AsyncCluster) -> None:
    from rich.table import Table

    names = (
        "Completions",
        "Expires",
        "Cancellations",
        "NumDelayedOperations",
        "Purges",
        "CallbackErrors",
    )
    table = Table("node", "purgatory", *names, title="what waited")
    for node, purgatories in cluster.metrics().items():
        for name, found in purgatories.items():
            if any(found[each] for each in names):
                table.add_row(str(node), name, *(f"{found[each]:,.0f}" for each in names))
    if table.row_count:
        console.print(table)


# -- control


def _control(options: argparse.Namespace) -> int:
    from request_purgatory.broker.cluster.admin_server import ControlClient

    _, arguments, choices = _CONTROLS[options.action]
    given = {name: getattr(options, name) for name in arguments}
    given |= {
        name: getattr(options, name) for name in choices if getattr(options, name) is not None
    }
    client = ControlClient(options.address)
    try:
        result = client.call(options.action.replace("-", "_"), given)
    finally:
        client.close()
    if result is not None:
        print(json.dumps(result, indent=2))
    return OK
