"""The throttle times of a node's clients, by how many bytes they produce and fetch."""

from __future__ import annotations

from collections.abc import Callable

from purgatory_broker.metadata.client_quotas import ClientLimit, client_limit
from purgatory_broker.metadata.metadata_cache import MetadataCache
from purgatory_broker.request_context import Client
from purgatory_broker.server.quotas import ByteRateQuota
from purgatory_broker.settings import ClusterSettings


class ClientThrottles:
    def __init__(self, settings: ClusterSettings, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._quotas = {
            key: ByteRateQuota(settings.quota_window_num, settings.quota_window_size_ms)
            for key in ("producer_byte_rate", "consumer_byte_rate")
        }

    def throttle_ms(
        self,
        key: str,
        default: float | None,
        client: Client,
        size_bytes: int,
        now_ms: Callable[[], int],
    ) -> int:
        """Return a client's throttle time by its quota, or by the default if it has none.

        `key`: `producer_byte_rate` or `consumer_byte_rate`. `now_ms`: called if there is a limit.
        """
        limit = None if default is None else ClientLimit(default, ("", client.client_id))
        if self._metadata.client_quotas:
            quota_limit = client_limit(
                self._metadata.client_quotas, key, client.user, client.client_id
            )
            limit = quota_limit or limit
        if limit is None:
            return 0
        quota = self._quotas[key]
        return quota.throttle_ms(limit.shared_by, limit.value, size_bytes, now_ms())
