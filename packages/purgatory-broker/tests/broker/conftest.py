"""Fixtures of the broker's tests."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import Cluster, ClusterProcess
from purgatory_broker.cluster.cluster_client import ClusterClient
from tests.broker.certificates import Certificates
from tests.broker.parity.raw import RawClient

#: What the fixture `connect` is.
Connect = Callable[[str], RawClient]
FullMetadataDisk = Callable[[], AbstractContextManager[None]]


#: How long a follower of the fixture `running` may lag, in milliseconds.
LAG_MS = 200


@pytest.fixture(scope="module", params=[Cluster, ClusterProcess], ids=["thread", "process"])
def running(request: pytest.FixtureRequest) -> Iterator[ClusterClient]:
    """Run a cluster of three nodes."""
    settings = {"replica_lag_time_max_ms": LAG_MS, "group_initial_rebalance_delay_ms": 0}
    with request.param(nodes=3, **settings) as cluster:
        yield cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Run a cluster of three nodes in memory for one test."""
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return the certificates of a broker and a client."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Return a function that connects to a node; the connections close with the test."""
    clients: list[RawClient] = []

    def make(address: str) -> RawClient:
        clients.append(RawClient(address))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(cluster: Cluster, connect: Connect) -> RawClient:
    """Return a connection to the leader of a new topic `t`."""
    cluster.create_topic("t")
    return connect(cluster.bootstrap_servers.split(",")[cluster.describe_topic("t")[0]["leader"]])


@pytest.fixture
def full_metadata_disk(monkeypatch: pytest.MonkeyPatch) -> FullMetadataDisk:
    """Return a function whose block leaves no space for the metadata file."""
    write = Path.open

    def failing(path: Path, *rest: Any, **more: Any) -> Any:
        if path.name.startswith("cluster."):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *rest, **more)

    @contextmanager
    def full() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", failing)
            yield

    return full
