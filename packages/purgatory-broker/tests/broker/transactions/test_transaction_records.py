"""Records of `__transaction_state`, byte for byte as Kafka's schemas say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.transactions.transaction import TransactionState, TransactionValue
from purgatory_broker.transactions.transaction_records import (
    TransactionRecordError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

ONGOING = TransactionValue(
    producer_id=1,
    producer_epoch=2,
    timeout_ms=3,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("a", 7), TopicPartition("a", 5), TopicPartition("b", 0)}),
    start_ms=8,
    update_ms=9,
    client_version=2,
    next_producer_id=10,
)


def test_key_is_the_version_and_the_id() -> None:
    assert encode_key("id") == b"\0\0\0\2id"
    assert decode_key(b"\0\0\0\2id") == "id"
    assert decode_key(b"\0\7\0\2id") is None


def test_value_of_version_1_is_flexible() -> None:
    assert encode_value(ONGOING, 2) == (
        b"\0\1"
        b"\0\0\0\0\0\0\0\1\0\2\0\0\0\3\1"
        b"\3"
        b"\2a\3\0\0\0\5\0\0\0\7\0"
        b"\2b\2\0\0\0\0\0"
        b"\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x08"
        b"\2\1\x08\0\0\0\0\0\0\0\x0a\2\2\0\2"
    )


def test_value_of_version_0_has_no_tagged_fields() -> None:
    assert encode_value(ONGOING, 0) == (
        b"\0\0"
        b"\0\0\0\0\0\0\0\1\0\2\0\0\0\3\1"
        b"\0\0\0\2"
        b"\0\1a\0\0\0\2\0\0\0\5\0\0\0\7"
        b"\0\1b\0\0\0\1\0\0\0\0"
        b"\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x08"
    )


@pytest.mark.parametrize(("version", "null"), [(0, b"\xff\xff\xff\xff"), (2, b"\0")])
def test_empty_transaction_has_no_partitions(version: int, null: bytes) -> None:
    empty = TransactionValue(producer_id=1, producer_epoch=0, timeout_ms=3)
    raw = encode_value(empty, version)
    assert raw[17 : 17 + len(null)] == null
    assert decode_value(raw) == empty


partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=8), st.integers(0, 2**31 - 1))
values = st.builds(
    TransactionValue,
    producer_id=st.integers(0, 2**63 - 1),
    previous_producer_id=st.integers(-1, 2**63 - 1),
    next_producer_id=st.integers(-1, 2**63 - 1),
    producer_epoch=st.integers(-1, 2**15 - 1),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from([each for each in TransactionState if each.value != "Empty"]),
    partitions=st.frozensets(partitions, max_size=5),
    start_ms=st.integers(-1, 2**62),
    update_ms=st.integers(0, 2**62),
    client_version=st.integers(0, 2),
)


@given(values)
def test_flexible_value_has_everything(value: TransactionValue) -> None:
    assert decode_value(encode_value(value, 2)) == value


@given(values, st.binary(max_size=3), st.integers(0, 200))
def test_damaged_value_is_refused(value: TransactionValue, extra: bytes, size: int) -> None:
    raw = encode_value(value, 0)
    assert decode_value(raw + extra).partitions == value.partitions
    if size < len(raw):
        with pytest.raises(TransactionRecordError):
            decode_value(raw[:size])


@given(st.binary(max_size=60))
def test_bytes_of_any_kind_are_decoded_or_refused(raw: bytes) -> None:
    for decode in (decode_key, decode_value):
        try:
            decode(raw)
        except TransactionRecordError:
            pass


def test_id_that_is_too_long_is_refused() -> None:
    with pytest.raises(TransactionRecordError, match="may have 32767 bytes, got 40000"):
        encode_key("x" * 40_000)
