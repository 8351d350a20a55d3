"""A light Kafka broker for tests and development, whose requests wait in purgatories.

Not for production.
"""

try:
    import crc32c as _crc32c  # noqa: F401

    # Before anything else imports kafka-python.
    from request_purgatory.broker.wire import kafka_python as _kafka_python  # noqa: F401
except ModuleNotFoundError as error:
    from request_purgatory.extras import missing_package

    raise missing_package(error, "broker") from error

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.cluster.client_request import ClientRequest
from request_purgatory.broker.cluster.cluster import Cluster
from request_purgatory.broker.cluster.cluster_client import ClusterClient
from request_purgatory.broker.cluster.cluster_process import ClusterProcess
from request_purgatory.broker.cluster.errors import ClusterError, ClusterTimeoutError
from request_purgatory.broker.cluster.group_snapshot import GroupSnapshot, MemberSnapshot
from request_purgatory.broker.cluster.intercepted_request import InterceptedRequest, Unanswered
from request_purgatory.broker.cluster.interception import Interception
from request_purgatory.broker.cluster.topic_records import TopicRecord
from request_purgatory.broker.replication.recorder import Recorder, RecorderError
from request_purgatory.broker.settings import ClusterSettings

__all__ = [
    "AsyncCluster",
    "ClientRequest",
    "Cluster",
    "ClusterClient",
    "ClusterError",
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
    "Unanswered",
]
