"""Kafka's wire protocol as bytes and messages, without I/O."""
