"""The commands of a running cluster as methods, wherever the cluster runs."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import (
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    get_type_hints,
)

from purgatory_broker.cluster._commands.cluster_commands import ClusterCommands
from purgatory_broker.cluster.cluster_errors import ClusterError, raise_first
from purgatory_broker.cluster.interception import InterceptFunction, Interception
from purgatory_broker.cluster.json_values import from_json
from purgatory_broker.cluster_options import ClusterOptions

P = ParamSpec("P")
R = TypeVar("R")


def _remote(
    command: Callable[Concatenate[ClusterCommands, P], R],
) -> Callable[Concatenate[ClusterClient, P], R]:
    """Return the method of a client that runs a command, with its parameters and docstring."""
    return _method(command)


def _remote_coroutine(
    command: Callable[Concatenate[ClusterCommands, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[ClusterClient, P], R]:
    return _method(command)


def _method(command: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(command)

    @functools.wraps(command)
    def method(self: ClusterClient, /, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        _, *names = bound.arguments
        result = self.call(command.__name__, **{name: bound.arguments[name] for name in names})
        return from_json(result, get_type_hints(command)["return"])

    return method


class ClusterClient(ABC):
    """Start a cluster, run commands on it, and stop it.

    `with Cluster() as cluster:` starts and stops a cluster of this process. Any thread may call the
    methods. Each returns when its command is done.

    Every command raises ClusterError or InvalidArgumentError, with the offending value, if the
    cluster refuses it.
    """

    #: Whether `close` has stopped the cluster, so that nobody need keep it.
    _is_closed = False
    _bootstrap_servers = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lstrip('_')} {self._describe()}>"

    @abstractmethod
    def _describe(self) -> str:
        """Return the cluster's nodes, addresses and state, without a question to it."""

    @abstractmethod
    def start(self) -> Self:
        """Start the cluster, as entering the `with` block does."""

    @abstractmethod
    def close(self) -> None:
        """Stop all nodes in an orderly way. Further calls do nothing.

        Raises:
            BaseException: a function given to `intercept` has raised it, and nobody has seen it.
        """

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        try:
            self.close()
        except BaseException as failure:
            raise_first([failure], error)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all nodes with commas between, for `bootstrap_servers` of clients."""
        return self._bootstrap_servers

    @abstractmethod
    def call(self, command: str, /, **arguments: Any) -> Any:
        """Run a command by its name, as in `COMMANDS`.

        Returns:
            The command's result.

        Raises:
            ClusterError: the cluster is not running, or refused the command.
            InvalidArgumentError: an argument's value is not allowed.
        """

    def intercept(
        self,
        api: str | None,
        function: InterceptFunction,
        *,
        may_be_cancelled: bool = False,  # noqa: ARG002 - of the clusters that call functions
    ) -> Interception:
        """Call a function with each request of an API; see `ClusterCommands.intercept`.

        Args:
            api: Kafka's name of the API, such as "Produce"; None is every API.
            function: called on the cluster's thread, with an `InterceptedRequest`. It must not
                block, nor wait for a client: the cluster stands still while it runs. It may run
                the commands that do not wait, such as `kill`. What it raises, of whatever kind, is
                raised again at the end of the block; see `Interception`.
            may_be_cancelled: whether the function may be cancelled half way, when its client goes
                or the cluster stops. Else that is an error, since an assertion may not have run.

        Returns:
            The interception, with its hits; `remove()` or the end of its `with` block ends it.

        Raises:
            ClusterError: the cluster is in another process, which can't call the function, or is
                not running.
            InvalidArgumentError: no API has this name, or the function is not callable.
        """
        raise ClusterError(
            f"intercept: the function {function!r} for {api or 'every API'} can't be called by a "
            "cluster in another process; use Cluster or AsyncCluster, or inject_request_error"
        )

    def end_functions(self) -> None:  # noqa: B027 - most clusters call no functions
        """Cancel the functions given to `intercept` that still run, as the end of the cluster does.

        A fixture whose cluster serves several tests calls this after each, so that the right one
        fails where a function was cancelled half way. No-op if the cluster is in another process,
        or is not running.
        """

    def raise_unseen_errors(self) -> None:  # noqa: B027 - most clusters call no functions
        """Raise what functions given to `intercept` have raised, unless somebody has seen it.

        `close` does so, too. A fixture whose cluster serves several tests calls this after each, so
        that the right one fails; the fixtures of the pytest plugin do. No-op if the cluster is in
        another process.

        Raises:
            BaseException: the first of them, with notes on the others.
        """

    # -- commands

    create_topic = _remote(ClusterCommands.create_topic)
    bootstrap_servers_of = _remote(ClusterCommands.bootstrap_servers_of)
    describe_topic = _remote(ClusterCommands.describe_topic)
    metrics = _remote(ClusterCommands.metrics)
    pause_replication = _remote(ClusterCommands.pause_replication)
    resume_replication = _remote(ClusterCommands.resume_replication)
    set_latency = _remote(ClusterCommands.set_latency)
    partition_node = _remote(ClusterCommands.partition_node)
    heal_node = _remote(ClusterCommands.heal_node)
    kill = _remote(ClusterCommands.kill)
    stop = _remote(ClusterCommands.stop)
    restart = _remote_coroutine(ClusterCommands.restart)
    move_leader = _remote(ClusterCommands.move_leader)
    inject_request_error = _remote(ClusterCommands.inject_request_error)
    inject_response_fault = _remote(ClusterCommands.inject_response_fault)
    clear_faults = _remote(ClusterCommands.clear_faults)
    delete_topic = _remote(ClusterCommands.delete_topic)
    truncate = _remote_coroutine(ClusterCommands.truncate)
    compact = _remote_coroutine(ClusterCommands.compact)
    faults = _remote(ClusterCommands.faults)
    advance_time = _remote(ClusterCommands.advance_time)
    reset = _remote_coroutine(ClusterCommands.reset)
    records = _remote_coroutine(ClusterCommands.records)
    high_watermark = _remote(ClusterCommands.high_watermark)
    groups = _remote(ClusterCommands.groups)
    transactions = _remote(ClusterCommands.transactions)
    fence_producer = _remote_coroutine(ClusterCommands.fence_producer)
    start_schema_registry = _remote_coroutine(ClusterCommands.start_schema_registry)
    requests = _remote_coroutine(ClusterCommands.requests)
    summary = _remote(ClusterCommands.summary)
    forget_requests = _remote(ClusterCommands.forget_requests)
    wait_for = _remote_coroutine(ClusterCommands.wait_for)


class ClusterFactory(Protocol):
    """The type of the fixture `make_kafka_cluster`, for the annotations of tests."""

    def __call__(
        self,
        nodes: int = ...,
        *,
        record: Path | str | None = None,
        **settings: Unpack[ClusterOptions],
    ) -> ClusterClient:
        """Start a cluster, which stops at the end of pytest's session.

        Args:
            nodes: number of brokers; the option `kafka_nodes` unless given.
            record: as for `Cluster`.
            settings: as for `Cluster`.

        Returns:
            The running cluster.
        """
