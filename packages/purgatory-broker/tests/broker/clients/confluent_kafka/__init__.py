"""Tests of confluent-kafka, which wraps librdkafka."""
