"""The command `purgatory-broker`: which commands there are, and where they are.

A command's module is imported when the command is called. This module stands beside the package
`purgatory_broker` and not in it, because an import of anything in the package imports its public
names, and with them the cluster. The list of commands and a mistyped command do not wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

try:
    from cyclopts import App, Group

    from purgatory_command_line.command import NO_NEGATIVES
    from purgatory_command_line.entry_point import run
    from purgatory_command_line.help_format import HelpFormatter
    from purgatory_command_line.version import version_text
except ModuleNotFoundError as missing:
    print(
        f"purgatory-broker: the package {missing.name} is missing; pip install "
        "'purgatory-broker[cli]' brings what the command needs",
        file=sys.stderr,
    )
    # `ExitCode.MISSING_DEPENDENCY`, whose package is maybe the missing one.
    raise SystemExit(4) from None

_CLUSTER = Group("Cluster", sort_key=1)
_CONTROL = Group("Control of a running cluster", sort_key=2)
_PROGRAM = Group("Program", sort_key=9)
_EPILOGUE = (
    "`purgatory-broker COMMAND --help` describes a command.\n\n"
    "Exit codes: 0 done, 1 failed, 2 bad input, 4 something to install is missing, "
    "130 and 143 stopped by SIGINT and SIGTERM."
)
_SERVE_EXAMPLE = (
    "Example: `purgatory-broker serve --nodes 3 --min-insync-replicas 2 --topic orders:4`"
)

#: The first line of each command's help, in the order of the help. All but `serve` are commands of
#: a running cluster, and functions of `purgatory_broker._cli.control`. The lines are those of the
#: functions' docstrings, as a test checks.
COMMANDS = {
    "serve": "Run a light Kafka cluster for tests and development.",
    "create-topic": "Create a topic. Clients can use it at once.",
    "describe-topic": "Print the state of a topic's partitions, by partition number.",
    "delete-topic": "Delete a topic with its records; clients can't use it any more.",
    "truncate": "Delete a topic's records, up to an offset or all, as Kafka's DeleteRecords does.",
    "compact": (
        "Compact a topic at once, on every live node that has it, and return when that is done."
    ),
    "bootstrap-servers-of": (
        'Print the addresses of all nodes that a listener advertises, "host:port,host:port".'
    ),
    "metrics": "Print the metrics of every live node's purgatories.",
    "pause-replication": "Stop a node from fetching as a follower, until `resume-replication`.",
    "resume-replication": "Undo `pause-replication`.",
    "set-latency": "Delay each message between a node and the other nodes or the controller.",
    "partition-node": (
        "Cut a node off from the other nodes and the controller; clients still reach it."
    ),
    "heal-node": "Undo `partition-node`.",
    "kill": "Stop a node at once, as `kill -9` would: data written but not flushed survives.",
    "stop": "Stop a node in an orderly way; no-op if it is not running.",
    "restart": "Start a killed or stopped node again, on its previous port and with its log.",
    "move-leader": (
        "Make another in-sync replica the leader of a partition, in a new leader epoch."
    ),
    "advance-time": (
        "Advance the brokers' time of day, for retention, compaction, groups and transactions."
    ),
    "reset": "Make the cluster empty again, on the same ports: no topics, groups or records.",
    "inject-request-error": (
        "Answer the next request of an API with an error, without handling it."
    ),
    "inject-response-fault": (
        "Delay, drop, corrupt or cut off the next response of an API; its request is handled."
    ),
    "clear-faults": (
        "Remove every injected request error and response fault, and every interception."
    ),
    "faults": (
        "Print the injected faults and interceptions with their hits, also those that are over."
    ),
    "transactions": (
        "Print the transactional ids of all coordinators, with their producers and transactions."
    ),
    "fence-producer": (
        "Fence the producer of a transactional id, as another producer with the id would."
    ),
    "start-schema-registry": "Start a schema registry on the cluster; no-op if it runs.",
    "records": (
        "Print the records of a topic that consumers can read: those below the high watermarks."
    ),
    "high-watermark": (
        "Print the high watermark of a partition's leader: consumers read the records before it."
    ),
    "groups": "Print the groups of all coordinators, with their members and committed offsets.",
    "requests": "Print the last requests of clients with their responses, oldest first.",
    "summary": "Print the cluster's state and its last requests as text, for a person.",
    "forget-requests": (
        "Forget the requests of clients until now; `requests` and `wait-for` begin anew."
    ),
    "wait-for": (
        "Wait until the cluster has reached a state; with several conditions, until all hold."
    ),
}


def make_app(described: Collection[str] = ()) -> App:
    """Return the command line of `purgatory-broker`.

    Args:
        described: Commands whose help is the whole docstring, not the line of `COMMANDS`.
    """
    app = App(
        name="purgatory-broker",
        help="Run a light Kafka cluster on loopback, and control it.",
        help_epilogue=_EPILOGUE,
        version=version_text("purgatory-broker"),
        version_flags=["--version", "-V"],
        help_formatter=HelpFormatter(),
        group_commands=_PROGRAM,
        default_parameter=NO_NEGATIVES,
    )
    for position, (name, line) in enumerate(COMMANDS.items()):
        serves = name == "serve"
        module = "serve" if serves else "control"
        app.command(
            f"purgatory_broker._cli.{module}:{name.replace('-', '_')}",
            name=name,
            group=_CLUSTER if serves else _CONTROL,
            help=None if name in described else line,
            sort_key=position,
            help_epilogue=_SERVE_EXAMPLE if serves else "",
        )
    app.register_install_completion_command(
        help="Install completion for the current shell.", group=_PROGRAM, help_epilogue=""
    )
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command line without the program's name; this process' unless given.

    Returns:
        The exit code, one of `ExitCode`.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run(make_app(described=words), words)
