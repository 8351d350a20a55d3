"""The command that starts a schema registry on a cluster."""

from __future__ import annotations

from purgatory_broker.cluster._commands.command_group import CommandGroup, command
from purgatory_broker.cluster.cluster_errors import ClusterError
from request_purgatory.errors import InvalidArgumentError

_MAX_PORT = 65_535


class RegistryCommands(CommandGroup):
    @command
    async def start_schema_registry(self, *, port: int = 0) -> str:
        """Start a schema registry on the cluster; no-op if it runs.

        It has the REST interface of Confluent's, for Avro, JSON Schema and Protobuf, and stores
        its schemas in the topic `_schemas`. It listens on 127.0.0.1 until the cluster stops. After
        `reset` it is empty. It needs `pip install 'purgatory-broker[schema-registry]'`.

        Args:
            port: the port to listen on; 0 is a free one.

        Returns:
            The registry's URL.

        Raises:
            InvalidArgumentError: the port is out of range.
            ControllerError: the topic can't be created.
            ClusterError: a package is missing that the registry needs.
            OSError: the port is in use. Other clusters than an AsyncCluster raise ClusterError.
        """
        if not 0 <= port <= _MAX_PORT:
            raise InvalidArgumentError("port", f"between 0 and {_MAX_PORT}", port)
        try:
            from purgatory_broker.cluster.schema_topic import SchemaTopic
            from purgatory_broker.schema_registry.registry_server import RegistryServer
        except ModuleNotFoundError as error:
            raise ClusterError(
                f"start_schema_registry: needs {error.name}: "
                "pip install 'purgatory-broker[schema-registry]'"
            ) from error
        async with self._start_lock:
            self.require_running("start_schema_registry")
            if self._schema_registry is None:
                topic = SchemaTopic(self._parts)
                topic.create()
                server = RegistryServer(topic, port)
                await server.start()
                self._schema_registry = server
            return self._schema_registry.url
