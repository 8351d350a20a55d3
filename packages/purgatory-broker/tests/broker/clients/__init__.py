"""Kafka clients, used as applications use them, against this broker or Apache Kafka."""
