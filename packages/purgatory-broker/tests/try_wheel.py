"""Start a cluster of the wheel that is installed, whose modules have to be compiled."""

from purgatory_broker import Cluster
from purgatory_broker.log import record

assert record.__file__ is not None
assert not record.__file__.endswith(".py"), record.__file__
with Cluster(nodes=3) as cluster:
    cluster.create_topic("orders", partitions=2)
