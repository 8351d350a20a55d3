"""The clients of a node that push metrics: what they are asked for, and when they may push.

As Kafka's `ClientMetricsManager`, whose clients are forgotten some time after their last request.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.compression import decompress
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.metadata.broker_configs import ResourceValues
from purgatory_broker.metadata.client_metrics import Subscribed, Subscription, subscribed
from purgatory_broker.metadata.topic_configs import ResourceType
from purgatory_broker.metadata.topics import ControllerError

#: Kafka's `telemetry.max.bytes`.
MAX_BYTES = 1_048_576
#: As in Kafka: the most clients that are remembered, and the shortest time for which they are.
MAX_CLIENTS = 16_384
_MIN_EXPIRY_MS = 60_000
#: The codecs that a client may use, Kafka's choice first; none is 0.
CODECS = (4, 3, 1, 2)
_LAST_CODEC = 4


@dataclass(slots=True)
class _TelemetryClient:
    subscription_id: int
    subscribed: Subscribed
    #: The configs that `subscribed` was computed of.
    configs: ResourceValues
    used_ms: int
    asked_ms: int | None = None
    pushed_ms: int | None = None
    is_terminating: bool = False
    #: Its last push was refused, so that it asks again.
    may_ask: bool = False

    def expires_ms(self) -> int:
        return self.used_ms + max(_MIN_EXPIRY_MS, 3 * self.subscribed.interval_ms)

    def is_early(self, since_ms: int | None, now_ms: int) -> bool:
        return since_ms is not None and now_ms - since_ms < self.subscribed.interval_ms


class ClientTelemetry:
    def __init__(self) -> None:
        #: In the order of their last request.
        self._clients: dict[UUID, _TelemetryClient] = {}
        #: The configs, and the subscriptions that they are.
        self._subscriptions: tuple[ResourceValues, list[Subscription]] = {}, []

    def ask(
        self, client: UUID, attributes: Mapping[str, str], configs: ResourceValues, now_ms: int
    ) -> tuple[int, Subscribed]:
        """Return a subscription's id, and what a client is to push."""
        known = self._client(client, attributes, configs, now_ms)
        last_ms = max(filter(None, (known.asked_ms, known.pushed_ms)), default=None)
        if known.is_early(last_ms, now_ms) and not known.may_ask:
            raise _too_early(client)
        known.may_ask = False
        known.asked_ms = now_ms
        return known.subscription_id, known.subscribed

    def push(
        self,
        client: UUID,
        attributes: Mapping[str, str],
        configs: ResourceValues,
        now_ms: int,
        *,
        subscription_id: int,
        is_terminating: bool,
        codec: int,
        metrics: bytes,
    ) -> None:
        """Note a push, unless it is refused."""
        known = self._client(client, attributes, configs, now_ms)
        known.may_ask = False
        was_terminating, known.is_terminating = known.is_terminating, is_terminating
        if was_terminating:
            raise ControllerError(ErrorCode.INVALID_REQUEST, f"client {client} has terminated")
        # The first push after a question may come at any time.
        has_asked = (known.asked_ms or 0) > (known.pushed_ms or 0)
        is_early = not has_asked and known.is_early(known.pushed_ms, now_ms)
        if not is_early:
            known.pushed_ms = now_ms
        elif not is_terminating:
            raise _too_early(client)
        if subscription_id != known.subscription_id:
            # The client may ask for another one at once.
            known.may_ask = True
            raise ControllerError(
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"unknown subscription {subscription_id}"
            )
        if not 0 <= codec <= _LAST_CODEC:
            known.may_ask = True
            raise ControllerError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type {codec}"
            )
        if len(metrics) > MAX_BYTES:
            raise ControllerError(
                ErrorCode.TELEMETRY_TOO_LARGE, f"{len(metrics)} bytes, more than {MAX_BYTES}"
            )
        try:
            decompress(codec, metrics)
        except RecordError as error:
            if metrics:
                raise ControllerError(ErrorCode.INVALID_RECORD, str(error)) from error

    def _client(
        self, client: UUID, attributes: Mapping[str, str], configs: ResourceValues, now_ms: int
    ) -> _TelemetryClient:
        known = self._clients.pop(client, None)
        if known is None or known.configs is not configs or known.expires_ms() <= now_ms:
            wanted = subscribed(self._subscriptions_of(configs), attributes)
            digest = zlib.crc32(f"{wanted.metrics}{wanted.interval_ms}".encode()) ^ client.fields[0]
            subscription_id = int.from_bytes(digest.to_bytes(4, "big"), "big", signed=True)
            known = _TelemetryClient(subscription_id, wanted, configs, now_ms)
        known.used_ms = now_ms
        self._clients[client] = known
        if len(self._clients) > MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        return known

    def _subscriptions_of(self, configs: ResourceValues) -> list[Subscription]:
        if self._subscriptions[0] is not configs:
            subscriptions = [
                Subscription.of(values)
                for (kind, _), values in configs.items()
                if kind == ResourceType.CLIENT_METRICS
            ]
            self._subscriptions = configs, subscriptions
        return self._subscriptions[1]


def _too_early(client: UUID) -> ControllerError:
    return ControllerError(
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        f"client {client} has sent a request before the next push interval time",
    )
