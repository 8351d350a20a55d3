"""A light broker of Kafka's protocol for tests and development, whose requests wait in the purgatory. Not for production."""

from request_purgatory.broker.async_cluster import AsyncCluster
from request_purgatory.broker.cluster import Cluster
from request_purgatory.broker.cluster_process import ClusterProcess
from request_purgatory.broker.control import ClusterError
from request_purgatory.broker.recorder import Recorder, RecorderError
from request_purgatory.broker.settings import ClusterSettings

__all__ = ["AsyncCluster", "Cluster", "ClusterError", "ClusterProcess", "ClusterSettings", "Recorder", "RecorderError"]
