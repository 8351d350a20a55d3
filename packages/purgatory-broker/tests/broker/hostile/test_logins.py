"""Invalid logins: no request is handled before the login, whatever comes."""

from __future__ import annotations

import asyncio
import random

from purgatory_broker.cluster.async_cluster import AsyncCluster
from tests.broker import apis
from tests.broker.hostile.client import check_clients_are_served
from tests.broker.hostile.conftest import RunScenario
from tests.broker.hostile.corpus import frames, request, streams
from tests.broker.hostile.mutations import BYTE_MUTATIONS
from tests.broker.hostile.raw_connection import RawConnection
from tests.broker.hostile.sample_requests import TOPIC, frame, with_size
from tests.broker.scram_client import ScramClient
from tests.broker.wire.schemas import response_class

#: Clients that log in, and those that the others of the tests use.
LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
SASL_LISTENER = 1
USERS = {"alice": "secret"}
RIGHT = b"\0alice\0secret"
SCRAM = "SCRAM-SHA-256"
METADATA = with_size(frame(apis.METADATA, 9))
#: Mutated tokens of each kind.
TOKENS = 1_000


def handshake(mechanism: str, version: int = 1) -> bytes:
    """Return a request that names a mechanism."""
    return with_size(request(apis.SASL_HANDSHAKE, version, mechanism=mechanism))


def authenticate(token: bytes) -> bytes:
    """Return a request with a token."""
    return with_size(request(apis.SASL_AUTHENTICATE, 2, auth_bytes=token))


def connect(cluster: AsyncCluster) -> RawConnection:
    """Connect to the listener with SASL."""
    return RawConnection(cluster.nodes[0], listener=SASL_LISTENER)


def server_token(response: bytes) -> bytes | None:
    """Return the token of a response without an error; None with an error."""
    answer = response_class(apis.SASL_AUTHENTICATE).decode(response[5:], version=2)
    return None if answer.error_code else bytes(answer.auth_bytes)


def is_logged_in(connection: RawConnection) -> bool:
    """Return whether a request is handled; before the login, its response has no brokers."""
    before = len(connection.responses())
    connection.send(METADATA)
    answers = connection.responses()[before:]
    return any(
        response_class(apis.METADATA).decode(each[5:], version=9).brokers for each in answers
    )


def test_corpus_does_nothing_before_the_login(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        before = sorted(cluster.controller.topics)
        begun = [[], [handshake("PLAIN")], [handshake(SCRAM)], [handshake("PLAIN", 0)]]
        corpus = [(name, with_size(raw)) for name, raw in frames()] + list(streams())
        for number, (name, raw) in enumerate(corpus):
            connection = connect(cluster)
            for each in begun[number % len(begun)]:
                connection.send(each)
            connection.send(raw)
            assert len(connection.responses()) <= 2, name
            assert not is_logged_in(connection), name
            connection.end()
            if number % 100 == 0:
                await asyncio.sleep(0.1)
        assert sorted(cluster.controller.topics) == before
        assert not cluster.groups()
        assert set(cluster.nodes[0].scram_credentials.users) == set(USERS)
        end_offset = cluster.describe_topic(TOPIC)[0]["offsets"][0]["end_offset"]
        assert end_offset == 0
        await check_clients_are_served(cluster)

    run_scenario(scenario, listeners=LISTENERS, sasl_users=USERS)


def test_mutated_tokens_do_not_log_in(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        chance = random.Random(5)
        for number in range(TOKENS):
            mutate = chance.choice(BYTE_MUTATIONS)
            connection = connect(cluster)
            token = mutate(chance, RIGHT)
            connection.send(handshake("PLAIN") + authenticate(token))
            assert is_logged_in(connection) is (token == RIGHT), token
            connection.end()

            connection = connect(cluster)
            login = ScramClient(SCRAM, "alice", "secret")
            final = number % 2 == 0
            first = login.first() if final else mutate(chance, login.first())
            connection.send(handshake(SCRAM) + authenticate(first))
            challenge = server_token(connection.responses()[-1])
            if challenge is not None and final:
                proof = login.final(challenge)
                token = mutate(chance, proof)
                connection.send(authenticate(token))
                # Some changes of the last character's base64 mean the same bytes.
                is_right = token[:-3] == proof[:-3] and len(token) == len(proof)
                assert is_right or not is_logged_in(connection), token
            else:
                assert not is_logged_in(connection), first
            connection.end()
            if number % 100 == 0:
                await asyncio.sleep(0.1)
        await check_clients_are_served(cluster)

    run_scenario(scenario, listeners=LISTENERS, sasl_users=USERS)


def test_requests_sent_with_a_failed_login_are_not_handled(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        connection = connect(cluster)
        create = with_size(frame(apis.CREATE_TOPICS, 5))
        connection.send(handshake("PLAIN") + authenticate(b"\0alice\0wrong") + create * 3)
        assert len(connection.responses()) == 2
        await asyncio.sleep(1)
        assert len(connection.responses()) == 2
        assert connection.transport.is_closed
        assert f"{TOPIC}-new" not in cluster.controller.topics

    run_scenario(scenario, listeners=LISTENERS, sasl_users=USERS)


def test_requests_sent_with_a_login_are_handled(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        for login in (
            handshake("PLAIN") + authenticate(RIGHT),
            handshake("PLAIN", 0) + with_size(RIGHT),
        ):
            connection = connect(cluster)
            connection.send(login + METADATA * 3)
            assert len(connection.responses()) == 5
            assert not connection.transport.is_closed
            connection.end()

    run_scenario(scenario, listeners=LISTENERS, sasl_users=USERS)


def test_idle_connection_before_the_login_is_closed(run_scenario: RunScenario) -> None:
    async def scenario(cluster: AsyncCluster) -> None:
        new, begun = connect(cluster), connect(cluster)
        begun.send(handshake("PLAIN"))
        await asyncio.sleep(100)
        assert new.transport.is_closed
        assert begun.transport.is_closed

    run_scenario(scenario, listeners=LISTENERS, sasl_users=USERS, connections_max_idle_ms=60_000)
