"""Clients of Kafka, as their users use them, against whatever speaks its protocol."""
