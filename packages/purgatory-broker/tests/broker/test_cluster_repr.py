"""What a cluster's `repr` says: it stands in the message of a failing assertion."""

from __future__ import annotations

import asyncio

from purgatory_broker import AsyncCluster, Cluster, ClusterProcess, ClusterSettings


def test_repr_of_a_cluster_has_its_addresses_and_the_nodes_that_do_not_run() -> None:
    cluster = Cluster(nodes=2)
    assert repr(cluster) == "<Cluster nodes=2, not started>"
    with cluster:
        addresses = cluster.bootstrap_servers
        assert repr(cluster) == f"<Cluster nodes=2 at {addresses}>"
        cluster.kill(1)
        assert repr(cluster) == f"<Cluster nodes=2 at {addresses}, without node 1>"
    assert repr(cluster) == "<Cluster nodes=2, not running>"


def test_repr_of_a_cluster_in_a_process_has_its_id() -> None:
    cluster = ClusterProcess()
    assert repr(cluster) == "<ClusterProcess nodes=1, not started>"
    with cluster:
        shown = f"<ClusterProcess nodes=1 at {cluster.bootstrap_servers}, process {cluster.pid}>"
        assert repr(cluster) == shown
        cluster.kill_process()
        assert repr(cluster) == "<ClusterProcess nodes=1, not running>"


def test_repr_of_a_cluster_on_the_event_loop() -> None:
    async def main() -> None:
        cluster = AsyncCluster(ClusterSettings(nodes=2))
        assert repr(cluster) == "<AsyncCluster nodes=2, not started>"
        async with cluster:
            cluster.stop(0)
            assert repr(cluster) == (
                f"<AsyncCluster nodes=2 at {cluster.bootstrap_servers}, without node 0>"
            )
        assert repr(cluster) == "<AsyncCluster nodes=2, not running>"

    asyncio.run(main())
