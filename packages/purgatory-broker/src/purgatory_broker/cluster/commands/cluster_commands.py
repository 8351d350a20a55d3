"""All commands of a cluster, and their table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from request_purgatory.broker.cluster.commands.fault_commands import FaultCommands
from request_purgatory.broker.cluster.commands.inspection_commands import InspectionCommands
from request_purgatory.broker.cluster.commands.node_commands import NodeCommands
from request_purgatory.broker.cluster.commands.topic_commands import TopicCommands


class ClusterCommands(TopicCommands, NodeCommands, FaultCommands, InspectionCommands):
    """The commands of a cluster, on its event loop.

    A refused command raises InvalidArgumentError, or ControllerError with the error code of Kafka.
    """


#: Every command by its name, in the order of the docs.
COMMANDS: dict[str, Callable[..., Any]] = {
    **TopicCommands.commands(),
    **NodeCommands.commands(),
    **FaultCommands.commands(),
    **InspectionCommands.commands(),
}
