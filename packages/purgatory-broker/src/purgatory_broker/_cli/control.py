"""The commands of a running cluster, each made of the function of its name in `COMMANDS`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from purgatory_broker._cli.printing import PRINTERS, describe_failure
from purgatory_broker.cluster._commands.cluster_commands import COMMANDS
from purgatory_broker.cluster.admin_server import CONTROL_PORT, ControlClient
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.cluster.json_values import to_json
from purgatory_command_line.command import command
from purgatory_command_line.exit_codes import ExitCode
from purgatory_command_line.output import OutputOptions
from purgatory_command_line.settings_options import option_type


class _RemoteCluster(ClusterClient):
    """A running cluster of another process, which this process neither starts nor stops."""

    def __init__(self, address: str) -> None:
        self._control = ControlClient(address)

    def _describe(self) -> str:
        return f"at {self._control.address}"

    def start(self) -> _RemoteCluster:
        return self

    def close(self) -> None:
        self._control.close()

    @property
    def bootstrap_servers(self) -> str:
        return str(self._control.call("bootstrap_servers", {}))

    def call(self, command: str, /, **arguments: Any) -> Any:
        return self._control.call(command, arguments)


def control_commands() -> list[str]:
    return [name for name in COMMANDS if name != "bootstrap_servers"]


def _control_command(name: str) -> Callable[..., ExitCode]:
    """Return a command with the parameters and the docstring of a cluster's command."""
    method = COMMANDS[name]

    def run(
        *values: Any,
        control: Annotated[
            str,
            Parameter(help="Where `serve` takes commands, as it prints.", metavar="HOST:PORT"),
        ] = f"127.0.0.1:{CONTROL_PORT}",
        output: OutputOptions,
        **options: Any,
    ) -> ExitCode:
        with _RemoteCluster(control) as cluster:
            result = getattr(cluster, name)(*values, **options)
        if result is not None:
            output.print_result(to_json(result))
            if not output.json:
                PRINTERS[name](output.console, result)
        return ExitCode.OK

    own = inspect.signature(run, eval_str=True).parameters
    parameters = [
        parameter.replace(
            kind=parameter.POSITIONAL_ONLY
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            else parameter.kind,
            annotation=_CONDITIONS.get(parameter.annotation) or option_type(parameter.annotation),
        )
        for parameter in inspect.signature(method, eval_str=True).parameters.values()
        # A topic's settings have no option, and a function does not cross processes.
        if parameter.name not in ("self", "configs", "when")
    ]
    parameters += [own["control"], own["output"]]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = _help(method.__doc__ or "")
    return command(describe_failure)(run)


def _condition(types: tuple[Callable[[str], Any], ...]) -> Callable[..., tuple[Any, ...]]:
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
    return [int(part) for part in text.split(",")]


#: The options of `wait-for` whose values have several parts, by the type of the parameter.
_CONDITIONS: dict[Any, Any] = {
    tuple[str, int] | None: Annotated[
        str | None, Parameter(converter=_condition((str, int)), metavar="NAME:COUNT")
    ],
    tuple[str, str] | None: Annotated[
        str | None, Parameter(converter=_condition((str, str)), metavar="NAME:STATE")
    ],
    tuple[int, int] | None: Annotated[
        str | None, Parameter(converter=_condition((int, int)), metavar="ID:HITS")
    ],
    tuple[str, str, str, list[int]] | None: Annotated[
        str | None,
        Parameter(
            converter=_condition((str, str, str, _numbers)),
            metavar="GROUP:CLIENT:TOPIC:PARTITION,PARTITION...",
        ),
    ],
    tuple[str, str, int, int] | None: Annotated[
        str | None,
        Parameter(
            converter=_condition((str, str, int, int)), metavar="GROUP:TOPIC:PARTITION:OFFSET"
        ),
    ],
    tuple[str, str, int] | None: Annotated[
        str | None,
        Parameter(converter=_condition((str, str, int)), metavar="GROUP:TOPIC:RECORDS"),
    ],
    tuple[str, int, list[int]] | None: Annotated[
        str | None,
        Parameter(
            converter=_condition((str, int, _numbers)), metavar="TOPIC:PARTITION:NODE,NODE..."
        ),
    ],
}


def _help(docstring: str) -> str:
    names = "|".join(control_commands())
    text = re.sub(rf"`({names})`", lambda match: match.group().replace("_", "-"), docstring)
    text = re.sub(r"(?m)^( +\w+: )([a-z])", lambda match: match[1] + match[2].upper(), text)
    # What an option without a value is typed as.
    text = re.sub(r"\bNone\b", "none", text)
    return re.sub(r"^Return ", "Print ", text)


# The functions that `purgatory_broker_command.COMMANDS` names.
globals().update({name: _control_command(name) for name in control_commands()})
