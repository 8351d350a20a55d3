"""The broker: its parts, its clients, and what it has in common with Apache Kafka."""
