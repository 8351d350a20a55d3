"""Share groups compared with Apache Kafka whose feature `share.version` is at level 1."""
