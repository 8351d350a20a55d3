"""Bytes that Hypothesis makes up, handed to connections."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from request_purgatory.broker.cluster.async_cluster import AsyncCluster
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.apis import APIS, Api
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.messages import read_header, read_request
from tests.broker.hostile.attacker import Attacker
from tests.broker.hostile.conftest import check, nothing_logged
from tests.broker.hostile.mutations import of_bytes, of_fields
from tests.broker.hostile.requests import (
    TOPIC,
    every_api_and_version,
    frame,
    header,
    sized,
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
    """Nothing else comes out of the wire module, whatever goes in."""
    try:
        found = read_header(raw)
        if found.is_served:
            read_request(raw, found)
    except WireError:
        pass


def _key(served_version: tuple[Api, int]) -> tuple[int, int]:
    api, version = served_version
    return api.key, version


@examples(300)
@given(chosen=served, seed=st.integers(0, 2**32), of=st.sampled_from([of_bytes, of_fields]))
def test_spoiled_requests_are_a_request_or_a_wire_error(
    chosen: tuple[Api, int], seed: int, of: object
) -> None:
    """As above, a little deeper."""
    raw = of(random.Random(seed), *chosen)  # type: ignore[operator]
    try:
        found = read_header(raw)
        if found.is_served:
            read_request(raw, found)
    except WireError:
        pass


@examples(40)
@given(
    attacks=st.lists(
        st.tuples(served, st.integers(0, 2**32), st.booleans(), st.integers(1, 3)),
        min_size=1,
        max_size=40,
    ),
    pauses=st.lists(st.sampled_from([0.0, 0.0, 0.1, 7.0]), max_size=20),
    pieces=st.integers(1, 5_000),
)
def test_connections_outlive_spoiled_requests_or_end(
    attacks: list[tuple[tuple[Api, int], int, bool, int]], pauses: list[float], pieces: int
) -> None:
    """One cluster after the other, attacked in a row and in pieces.

    Time passes now and then, so that what waits runs out.
    """

    async def main() -> None:
        async with AsyncCluster(ClusterSettings(nodes=2)) as cluster:
            cluster.create_topic(TOPIC, partitions=2)
            cluster.create_offsets_topic()
            await asyncio.sleep(1)
            topic_id = cluster.controller.topics[TOPIC].topic_id
            waits = iter(pauses)
            for (api, version), seed, is_in_order, times in attacks:
                chance = random.Random(seed)
                raw = (
                    of_fields(chance, api, version, times)
                    if is_in_order
                    else of_bytes(chance, api, version)
                )
                raw = sized(with_topic_id(raw, topic_id))
                attacker = Attacker(cluster.nodes[chance.randrange(2)])
                for position in range(0, len(raw), pieces):
                    attacker.send(raw[position : position + pieces])
                await asyncio.sleep(next(waits, 0.0))
                attacker.answers()
                if chance.random() < 0.7:
                    attacker.end()
            check(cluster)

    with nothing_logged():
        run(main)


def test_samples_are_what_clients_send() -> None:
    """Each is a request that is read without complaint, at each version.

    What is spoiled was whole before.
    """
    for api, version in _SERVED:
        raw = frame(api, version)
        found = read_header(raw)
        assert (found.api, found.version) == (api, version)
        read_request(raw, found)
    assert len({api.key for api, _ in _SERVED}) == len(APIS)
