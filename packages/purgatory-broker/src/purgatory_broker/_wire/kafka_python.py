"""Imports the messages of kafka-python, without a warning.

On Python 3.11 and 3.12 kafka-python reads the definition of each message by deprecated functions,
when it is imported. Tests that turn warnings into errors would fail there.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.protocol import admin, consumer, metadata, producer, sasl

    from purgatory_broker._wire import consumer_group_heartbeat

__all__ = ["admin", "consumer", "consumer_group_heartbeat", "metadata", "producer", "sasl"]
