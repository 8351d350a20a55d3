"""SCRAM credentials that clients store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker import ClusterProcess, ClusterSettings
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api import scram_credentials
from purgatory_broker.cluster.async_cluster import AsyncCluster
from request_purgatory.errors import InvalidArgumentError
from tests.broker import apis
from tests.broker.conftest import FullMetadataDisk
from tests.broker.parity.raw import RawClient
from tests.broker.replication.cluster_harness import ClusterHarness, handle_request, run_scenario
from tests.broker.scram_client import NUMBERS, ScramClient, salted_password

SHA_256, SHA_512 = NUMBERS["SCRAM-SHA-256"], NUMBERS["SCRAM-SHA-512"]
USERS = {"alice": "secret"}
LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"


def upsertion(user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    """Return what stores a user's credential."""
    return {
        "name": user,
        "mechanism": NUMBERS[mechanism],
        "iterations": 4_096,
        "salt": b"salt",
        "salted_password": salted_password(mechanism, password, b"salt", 4_096),
    }


def deletion(user: str, mechanism: int = SHA_256) -> dict[str, Any]:
    """Return what deletes a user's credential."""
    return {"name": user, "mechanism": mechanism}


async def alter(
    harness: ClusterHarness,
    *upsertions: dict[str, Any],
    deletions: tuple[dict[str, Any], ...] = (),
) -> dict[str, ErrorCode]:
    """Change credentials, and return the error of each user."""
    reply, _ = handle_request(
        harness,
        0,
        apis.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        deletions=list(deletions),
        upsertions=list(upsertions),
    )
    return {each.user: ErrorCode(each.error_code) for each in (await reply.get()).results}


async def described(harness: ClusterHarness) -> dict[str, list[int]]:
    """Return the mechanisms of each user with a credential."""
    reply, _ = handle_request(harness, 1, apis.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)
    return {
        each.user: [info.mechanism for info in each.credential_infos]
        for each in (await reply.get()).results
    }


def log_in(address: str, user: str, password: str) -> ErrorCode:
    """Log in by SCRAM-SHA-256, and return the error of the end."""
    client = RawClient(address)
    try:
        client.call("SaslHandshake", 1, mechanism="SCRAM-SHA-256")
        login = ScramClient("SCRAM-SHA-256", user, password)
        answer = client.call("SaslAuthenticate", 2, auth_bytes=login.first())
        if answer.error_code == ErrorCode.NONE:
            final = login.final(bytes(answer.auth_bytes))
            answer = client.call("SaslAuthenticate", 2, auth_bytes=final)
        return ErrorCode(answer.error_code)
    finally:
        client.close()


@pytest.mark.slow
def test_credentials_survive_sigkill(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "data_dir": tmp_path,
        "listeners": LISTENERS,
        "sasl_users": USERS,
    }
    cluster = ClusterProcess(**settings).start()
    try:
        client = RawClient(cluster.bootstrap_servers)
        altered = client.call(
            "AlterUserScramCredentials",
            0,
            deletions=[],
            upsertions=[upsertion("bob", "new"), upsertion("alice", "changed")],
        )
        assert [each.error_code for each in altered.results] == [0, 0]
        cluster.kill_process()
        client.close()
    finally:
        cluster.close()
    with ClusterProcess(**settings) as again:
        address = again.bootstrap_servers_of("SASL_PLAINTEXT")
        assert log_in(address, "bob", "new") is ErrorCode.NONE
        assert log_in(address, "alice", "changed") is ErrorCode.NONE
        assert log_in(address, "alice", "secret") is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_changes_are_stored(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> None:
        assert await alter(harness, upsertion("bob", "a"), upsertion("carol", "b")) == {
            "bob": ErrorCode.NONE,
            "carol": ErrorCode.NONE,
        }
        found = await alter(harness, deletions=(deletion("alice"), deletion("carol")))
        assert set(found.values()) == {ErrorCode.NONE}

    async def after(harness: ClusterHarness) -> None:
        assert await described(harness) == {"alice": [SHA_512], "bob": [SHA_256]}
        found = await alter(harness, deletions=(deletion("alice"), deletion("bob")))
        assert found == {"alice": ErrorCode.RESOURCE_NOT_FOUND, "bob": ErrorCode.NONE}
        await alter(harness, deletions=(deletion("alice", SHA_512),))
        assert await described(harness) == {}
        await alter(harness, upsertion("dan", "c"))

    async def reset(harness: ClusterHarness) -> None:
        assert await described(harness) == {"dan": [SHA_256]}
        await harness.cluster.reset()
        assert await described(harness) == {"alice": [SHA_256, SHA_512]}
        await harness.create_topic()

    for scenario in (before, after, reset):
        run_scenario(scenario, data_dir=tmp_path, sasl_users=USERS)
    stored = json.loads((tmp_path / "cluster.json").read_text())
    assert stored["scram_credentials"] == []


def test_metadata_without_credentials_is_loaded(tmp_path: Path) -> None:
    async def nothing(harness: ClusterHarness) -> None:
        await harness.settle()

    async def later(harness: ClusterHarness) -> None:
        assert await described(harness) == {"alice": [SHA_256, SHA_512]}

    run_scenario(nothing, data_dir=tmp_path, sasl_users=USERS)
    path = tmp_path / "cluster.json"
    data = json.loads(path.read_text())
    del data["scram_credentials"]
    path.write_text(json.dumps(data))
    run_scenario(later, data_dir=tmp_path, sasl_users=USERS)


@pytest.mark.parametrize(
    "damage",
    [
        {"mechanism": "SCRAM_SHA_1"},
        {"user": ""},
        {"user": 5},
        {"credential": {}},
        {"credential": {"iterations": "4096"}},
        {"credential": {"stored_key": "AAAA"}},
        {"credential": {"salt": "no base64"}},
    ],
)
def test_damaged_credential_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    async def before(harness: ClusterHarness) -> None:
        await alter(harness, upsertion("bob", "a"))

    run_scenario(before, data_dir=tmp_path)
    path = tmp_path / "cluster.json"
    data = json.loads(path.read_text())
    entry = data["scram_credentials"][0]
    key = entry["credential"]["server_key"]
    part = damage.get("credential")
    entry |= {"credential": entry["credential"] | part} if part else damage
    path.write_text(json.dumps(data))
    with pytest.raises(InvalidArgumentError, match="is not damaged") as refused:
        AsyncCluster(ClusterSettings(nodes=3, data_dir=tmp_path))
    assert key not in str(refused.value)


def test_change_that_can_not_be_stored_is_refused(
    tmp_path: Path, full_metadata_disk: FullMetadataDisk
) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        with full_metadata_disk():
            found = await alter(
                harness, upsertion("bob", "a"), deletions=(deletion("alice"), deletion("eve"))
            )
        assert found == {
            "alice": ErrorCode.KAFKA_STORAGE_ERROR,
            "bob": ErrorCode.KAFKA_STORAGE_ERROR,
            "eve": ErrorCode.RESOURCE_NOT_FOUND,
        }
        assert await described(harness) == {"alice": [SHA_256, SHA_512]}
        found = await alter(harness, upsertion("bob", "a"))
        assert found == {"bob": ErrorCode.NONE}

    run_scenario(scenario, data_dir=tmp_path, sasl_users=USERS)


def test_number_of_users_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_credentials, "MAX_USERS", 2)

    async def scenario(harness: ClusterHarness) -> None:
        found = await alter(harness, upsertion("bob", "a"), upsertion("carol", "a"))
        assert found == {"bob": ErrorCode.NONE, "carol": ErrorCode.POLICY_VIOLATION}
        found = await alter(
            harness, upsertion("carol", "a"), upsertion("bob", "b", "SCRAM-SHA-512")
        )
        assert found == {"bob": ErrorCode.NONE, "carol": ErrorCode.POLICY_VIOLATION}
        assert await described(harness) == {"alice": [SHA_256, SHA_512], "bob": [SHA_256, SHA_512]}

    run_scenario(scenario, sasl_users=USERS)
