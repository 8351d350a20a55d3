"""The messages of Kafka's protocol, made by `python -m tools.protocol`; see its README."""
