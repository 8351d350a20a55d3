"""Bytes that Hypothesis draws, sent to connections."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.messages import read_header, read_request
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.registry import APIS
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.settings import ClusterSettings
from tests.broker.hostile.conftest import check_invariants, no_errors_logged
from tests.broker.hostile.mutations import mutate_bytes, mutate_fields
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import (
    TOPIC,
    every_api_and_version,
    frame,
    header,
    with_size,
    with_topic_id,
)
from tests.support.profiles import examples
from tests.unit.aio.virtual import run

_SERVED = list(every_api_and_version())

served = st.sampled_from(_SERVED)
noise = st.binary(max_size=200)


@examples(300)
@given(
    raw=st.one_of(
        noise, st.builds(lambda api, rest: header(*_key(api), flexible=False) + rest, served, noise)
    )
)
def test_bytes_are_a_request_or_a_wire_error(raw: bytes) -> None:
    try:
        found = read_header(raw, APIS)
        if found.is_supported:
            read_request(raw, found)
    except WireError:
        pass


def _key(served_version: tuple[Api, int]) -> tuple[int, int]:
    api, version = served_version
    return api.key, version


@examples(300)
@given(chosen=served, seed=st.integers(0, 2**32), of=st.sampled_from([mutate_bytes, mutate_fields]))
def test_mutated_requests_are_a_request_or_a_wire_error(
    chosen: tuple[Api, int], seed: int, of: object
) -> None:
    raw = of(random.Random(seed), *chosen)  # type: ignore[operator]
    try:
        found = read_header(raw, APIS)
        if found.is_supported:
            read_request(raw, found)
    except WireError:
        pass


@examples(40)
@given(
    mutations=st.lists(
        st.tuples(served, st.integers(0, 2**32), st.booleans(), st.integers(1, 3)),
        min_size=1,
        max_size=40,
    ),
    pauses=st.lists(st.sampled_from([0.0, 0.0, 0.1, 7.0]), max_size=20),
    pieces=st.integers(1, 5_000),
)
def test_connections_survive_mutated_requests_or_are_closed(
    mutations: list[tuple[tuple[Api, int], int, bool, int]], pauses: list[float], pieces: int
) -> None:
    async def main() -> None:
        async with AsyncCluster(ClusterSettings(nodes=2)) as cluster:
            cluster.create_topic(TOPIC, partitions=2)
            cluster.create_offsets_topic()
            await asyncio.sleep(1)
            topic_id = cluster.controller.topics[TOPIC].topic_id
            waits = iter(pauses)
            for (api, version), seed, is_in_order, times in mutations:
                chance = random.Random(seed)
                raw = (
                    mutate_fields(chance, api, version, times)
                    if is_in_order
                    else mutate_bytes(chance, api, version)
                )
                raw = with_size(with_topic_id(raw, topic_id))
                connection = RawConnection(cluster.nodes[chance.randrange(2)])
                for position in range(0, len(raw), pieces):
                    connection.send(raw[position : position + pieces])
                await asyncio.sleep(next(waits, 0.0))
                connection.responses()
                if chance.random() < 0.7:
                    connection.end()
            check_invariants(cluster)

    with no_errors_logged():
        run(main)


def test_sample_requests_are_valid() -> None:
    for api, version in _SERVED:
        raw = frame(api, version)
        found = read_header(raw, APIS)
        assert (found.api, found.version) == (api, version)
        read_request(raw, found)
    assert len({api.key for api, _ in _SERVED}) == len(APIS)
