"""Parity: what Apache Kafka does, case by case, and whether this broker does the same."""
