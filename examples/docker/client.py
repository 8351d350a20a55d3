"""Log in by SCRAM, send a message, and read it again. The environment says where, and as whom."""

from __future__ import annotations

import os

from kafka import KafkaConsumer, KafkaProducer

TOPIC = "orders"


def main() -> None:
    """Print the message that comes back.

    Raises:
        SystemExit: it does not come back within 30 s.
    """
    connection = {
        "bootstrap_servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": os.environ["KAFKA_USER"],
        "sasl_plain_password": os.environ["KAFKA_PASSWORD"],
    }
    producer = KafkaProducer(acks="all", **connection)
    sent = producer.send(TOPIC, b"two apples").get(timeout=30)
    producer.close()
    consumer = KafkaConsumer(
        TOPIC, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **connection
    )
    for record in consumer:
        if (record.partition, record.offset) == (sent.partition, sent.offset):
            print(f"{record.topic}-{record.partition}: {record.value.decode()}", flush=True)
            break
    else:
        raise SystemExit("the message did not come back within 30 s")
    consumer.close()


if __name__ == "__main__":
    main()
