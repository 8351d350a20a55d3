"""The messages of share groups (KIP-932), which kafka-python lacks.

Their fields are in the JSON files of this folder, in the form of Kafka's own definitions.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

from kafka.protocol.api_message import ApiMessage


def _messages() -> dict[str, Any]:
    return {
        file.stem: types.new_class(file.stem, (ApiMessage,), {"load_json": __package__})
        for file in sorted(Path(__file__).parent.glob("*.json"))
    }


MESSAGES = _messages()
globals().update(MESSAGES)
