"""The topic of groups and committed offsets."""

from __future__ import annotations

from purgatory_broker.metadata.controller import Controller
from purgatory_broker.metadata.topics import OFFSETS_TOPIC
from purgatory_broker.settings import ClusterSettings

_CONFIGS = {
    "cleanup.policy": "compact",
    "compression.type": "producer",
    "segment.bytes": "104857600",
}


def create_offsets_topic(controller: Controller, settings: ClusterSettings) -> None:
    """Create `__consumer_offsets`; no-op if it exists."""
    if OFFSETS_TOPIC not in controller.topics:
        controller.topic_changes.create(
            OFFSETS_TOPIC,
            partitions=settings.offsets_topic_num_partitions,
            replication_factor=min(settings.replication_factor, len(controller.alive)),
            configs=dict(_CONFIGS),
            internal=True,
        )
