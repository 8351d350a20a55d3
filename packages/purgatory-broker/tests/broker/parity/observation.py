"""Observations as JSON values, without the details in which equivalent brokers may differ."""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.parity.batches import shown

_NODES = {"node_id", "leader_id", "broker_id", "controller_id", "preferred_read_replica"}
_SETS_OF_NODES = {"replica_nodes", "isr_nodes", "offline_replicas"}
_ERRORS = {"error_code", "topic_config_error_code"}
# Texts, which may differ.
_WORDS = {"error_message", "batch_index_error_message", "documentation"}
# Values that mean the same as null.
_NOTHING: dict[str, Any] = {
    "current_leader": {"leader_id": -1, "leader_epoch": -1},
    "diverging_epoch": {"epoch": -1, "end_offset": -1},
    "snapshot_id": {"end_offset": -1, "epoch": -1},
    "node_endpoints": [],
    "aborted_transactions": [],
    "topic_config_error_code": "NONE",
}
_CODES = {int(each) for each in ErrorCode}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOPIC_CONFIG = 1
_DAY_MS = 86_400_000


class Normaliser:
    """Converts the observations of one case for comparison.

    // `token` is the part of the case's names that differs in each run.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._ids: dict[str, str] = {}
        #: The error messages that were left out.
        self.said: list[str] = []

    def __call__(self, seen: Any) -> Any:
        """Convert responses, parts of them, dicts, lists and plain values."""
        return self._any("", seen)

    def _any(self, name: str, seen: Any) -> Any:
        if hasattr(seen, "to_dict"):
            return self._message(seen.to_dict(json=False))
        if isinstance(seen, dict):
            return {self._text(str(key)): self._any(str(key), value) for key, value in seen.items()}
        if isinstance(seen, (list, tuple, set)):
            return [self._any(name, each) for each in seen]
        return self._plain(name, seen)

    def _message(self, fields: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for name, value in fields.items():
            if name in _WORDS:
                if value:
                    self.said.append(self._text(value))
            elif name in _SETS_OF_NODES:
                made[name] = f"{len(value)} nodes"
            else:
                found = self._field(name, value)
                if name not in _NOTHING or (found is not None and found != _NOTHING[name]):
                    made[name] = found
        return made

    def _field(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return self._message(value)
        if isinstance(value, (list, tuple, set)):
            found = [self._field(name, each) for each in value]
            # The order of structs in a response's arrays is not specified.
            return (
                sorted(found, key=json.dumps)
                if value and isinstance(next(iter(value)), dict)
                else found
            )
        return self._plain(name, value)

    def _plain(self, name: str, value: Any) -> Any:
        if name == "records":
            return self._any("", shown(None if value is None else bytes(value)))
        if isinstance(value, uuid.UUID):
            return "zero" if value.int == 0 else "id"
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._text(bytes(value).decode(errors="backslashreplace"))
        if isinstance(value, str):
            return {"host": "host" if value else "", "cluster_id": "cluster"}.get(
                name, self._text(value)
            )
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        if name in _ERRORS:
            return ErrorCode(value).name if value in _CODES else value
        if name in _NODES:
            return "node" if value >= 0 else value
        if name == "port":
            return "port" if value > 0 else value
        if name in ("session_id", "producer_id"):
            return name if value > 0 or (value == 0 and name == "producer_id") else value
        if name == "config_source":
            # The other sources may differ.
            return "topic" if value == _TOPIC_CONFIG else "elsewhere"
        # Any time of today.
        return "now" if abs(value - time.time() * 1000) < _DAY_MS else value

    def _text(self, value: str) -> str:
        return _UUID.sub(
            lambda found: self._ids.setdefault(found[0], f"<{len(self._ids) + 1}>"),
            value.replace(self._token, ""),
        )


def timing(elapsed_ms: float, wait_ms: float) -> str:
    """Classify how long an operation took that may take `wait_ms`."""
    if elapsed_ms < wait_ms / 2:
        return "at once"
    if elapsed_ms < wait_ms * 0.95:
        return "early"
    return "waited" if elapsed_ms < wait_ms * 2 + 2000 else "too long"
