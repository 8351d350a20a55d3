"""Tests of the broker: its parts, its clients, and its parity with Apache Kafka."""
