"""All commands of a cluster, and their table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purgatory_broker.cluster._commands.fault_commands import FaultCommands
from purgatory_broker.cluster._commands.inspection_commands import InspectionCommands
from purgatory_broker.cluster._commands.node_commands import NodeCommands
from purgatory_broker.cluster._commands.registry_commands import RegistryCommands
from purgatory_broker.cluster._commands.topic_commands import TopicCommands
from purgatory_broker.cluster._commands.transaction_commands import TransactionCommands


class ClusterCommands(
    TopicCommands,
    NodeCommands,
    FaultCommands,
    TransactionCommands,
    RegistryCommands,
    InspectionCommands,
):
    """The commands of a cluster, on its event loop.

    A refused command raises InvalidArgumentError, or ControllerError with the error code of Kafka.
    """


#: Every command by its name, in the order of the docs.
COMMANDS: dict[str, Callable[..., Any]] = {
    **TopicCommands.commands(),
    **NodeCommands.commands(),
    **FaultCommands.commands(),
    **TransactionCommands.commands(),
    **RegistryCommands.commands(),
    **InspectionCommands.commands(),
}
