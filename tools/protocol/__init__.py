"""Makes the messages of Kafka's protocol; see the README."""
