"""Limits on the partitions that clients may create.

A partition takes up some three kilobytes on each node that has it, even if it is empty. Everything
else that clients store - records, groups, offsets, settings - takes up memory in proportion to the
bytes that they send.
"""

from __future__ import annotations

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.setting_values import MAX_NEW_PARTITIONS

#: All partitions of a CreateTopics request, and those that CreatePartitions adds to a topic.
MAX_PARTITIONS_PER_REQUEST = MAX_NEW_PARTITIONS
#: The most partitions of a cluster; they take up 60 MB on each broker. Kafka has no such limit.
#: Topics that code and commands create are limited by `MAX_NEW_PARTITIONS` each.
MAX_PARTITIONS = 20_000
#: The most topics that one Metadata request creates. The client repeats the request until all its
#: topics exist.
MAX_TOPICS_PER_METADATA = 1_000

TOO_MANY_PER_REQUEST = "Excessively large number of partitions per request."
TOO_MANY = f"The cluster would have more than {MAX_PARTITIONS} partitions."


def available_partitions(broker: BrokerApi) -> int:
    """Return the number of partitions that clients may still create; below 0 if exceeded."""
    return MAX_PARTITIONS - sum(len(topic.partitions) for topic in broker.metadata.topics.values())
