"""Where our broker does not do as Kafka does, on purpose: the case, and why."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {}
