"""A stream's inputs and outputs: folders, Kafka topics, generated load; and its ticks."""
