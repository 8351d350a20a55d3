"""A light Kafka broker for tests and development, whose requests wait in purgatories.

Not for production.
"""

from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.cluster.client_request import ClientRequest
from purgatory_broker.cluster.cluster import Cluster
from purgatory_broker.cluster.cluster_client import ClusterClient, ClusterFactory
from purgatory_broker.cluster.cluster_errors import ClusterError, ClusterTimeoutError
from purgatory_broker.cluster.cluster_process import ClusterProcess
from purgatory_broker.cluster.intercepted_request import InterceptedRequest, Unanswered
from purgatory_broker.cluster.interception import Interception
from purgatory_broker.cluster.snapshots import GroupSnapshot, MemberSnapshot, TopicRecord
from purgatory_broker.cluster.transaction_snapshots import TransactionSnapshot
from purgatory_broker.replication.recorder import Recorder, RecorderError
from purgatory_broker.settings import ClusterSettings

__all__ = [
    "AsyncCluster",
    "ClientRequest",
    "Cluster",
    "ClusterClient",
    "ClusterError",
    "ClusterFactory",
    "ClusterProcess",
    "ClusterSettings",
    "ClusterTimeoutError",
    "GroupSnapshot",
    "InterceptedRequest",
    "Interception",
    "MemberSnapshot",
    "Recorder",
    "RecorderError",
    "TopicRecord",
    "TransactionSnapshot",
    "Unanswered",
]
