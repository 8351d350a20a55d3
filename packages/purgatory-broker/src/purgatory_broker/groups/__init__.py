"""Kafka's group coordinator for the classic group protocol, with committed offsets, without I/O."""
