"""confluent-kafka's serializers over HTTP, with their records on the cluster."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from purgatory_broker import Cluster

TIME_LIMIT = 30.0
USER = {"name": "anneliese", "age": 7}
AVRO_USER = """{"type": "record", "name": "User", "fields": [
    {"name": "name", "type": "string"}, {"name": "age", "type": "int"}]}"""
JSON_USER = """{"title": "User", "type": "object", "properties": {
    "name": {"type": "string"}, "age": {"type": "integer"}}, "additionalProperties": false}"""
VALUES = SerializationContext("users", MessageField.VALUE)


def test_avro_records_are_read_as_they_were_written(shared_cluster: Cluster, client: Any) -> None:
    producer = Producer({"bootstrap.servers": shared_cluster.bootstrap_servers})
    producer.produce("users", AvroSerializer(client, AVRO_USER)(USER, VALUES))
    producer.flush(TIME_LIMIT)
    consumer = Consumer(
        {
            "bootstrap.servers": shared_cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["users"])
    message = consumer.poll(TIME_LIMIT)
    consumer.close()
    # Another client, which knows no schema yet.
    other = SchemaRegistryClient({"url": shared_cluster.start_schema_registry()})
    assert AvroDeserializer(other)(message.value(), VALUES) == USER
    assert client.get_subjects() == ["users-value"]


def test_avro_reader_has_another_schema_than_the_writer(client: Any) -> None:
    data = AvroSerializer(client, AVRO_USER)(USER, VALUES)
    reader = '{"type": "record", "name": "User", "fields": [{"name": "age", "type": "long"}]}'
    assert AvroDeserializer(client, reader)(data, VALUES) == {"age": 7}


def test_avro_schema_refers_to_another_subject(client: Any) -> None:
    client.register_schema("user", Schema(AVRO_USER, "AVRO"))
    order = '{"type": "record", "name": "Order", "fields": [{"name": "by", "type": "User"}]}'
    schema = Schema(order, "AVRO", [SchemaReference("User", "user", 1)])
    data = AvroSerializer(client, schema)({"by": USER}, VALUES)
    assert AvroDeserializer(client)(data, VALUES) == {"by": USER}
    assert client.get_latest_version("users-value").schema.references == schema.references


def test_referred_schema_refers_to_another_one(client: Any) -> None:
    client.register_schema("user", Schema(AVRO_USER, "AVRO"))
    team = '{"type": "record", "name": "Team", "fields": [{"name": "lead", "type": "User"}]}'
    client.register_schema("team", Schema(team, "AVRO", [SchemaReference("User", "user", 1)]))
    shop = '{"type": "record", "name": "Shop", "fields": [{"name": "team", "type": "Team"}]}'
    schema = Schema(shop, "AVRO", [SchemaReference("Team", "team", 1)])
    value = {"team": {"lead": USER}}
    data = AvroSerializer(client, schema)(value, VALUES)
    assert AvroDeserializer(client)(data, VALUES) == value


def test_json_records_are_read_as_they_were_written(client: Any) -> None:
    data = JSONSerializer(JSON_USER, client)(USER, VALUES)
    assert JSONDeserializer(None, schema_registry_client=client)(data, VALUES) == USER


def test_json_schema_refers_to_another_subject(client: Any) -> None:
    client.register_schema("user", Schema(JSON_USER, "JSON"))
    order = '{"title": "Order", "type": "object", "properties": {"by": {"$ref": "user.json"}}}'
    schema = Schema(order, "JSON", [SchemaReference("user.json", "user", 1)])
    data = JSONSerializer(schema, client)({"by": USER}, VALUES)
    assert JSONDeserializer(None, schema_registry_client=client)(data, VALUES) == {"by": USER}


@pytest.mark.parametrize("skips_known_types", [True, False])
def test_protobuf_records_are_read_as_they_were_written(
    client: Any, skips_known_types: bool
) -> None:
    kind = order_class()
    message = kind(name="shoes", size={"number": 7})
    message.at.FromSeconds(99)
    conf = {"use.deprecated.format": False, "skip.known.types": skips_known_types}
    data = ProtobufSerializer(kind, client, conf)(message, VALUES)
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)
    assert read(data, VALUES) == message
    known = [] if skips_known_types else ["google/protobuf/timestamp.proto"]
    assert client.get_subjects() == [*known, "sizes.proto", "users-value"]
    assert client.get_referenced_by("sizes.proto", 1)


def order_class() -> Any:
    """Return a message's class, whose file imports another one and a known one."""
    sizes = FileDescriptorProto(name="sizes.proto", package="shop", syntax="proto3")
    number = sizes.message_type.add(name="Size").field.add(name="number", number=1)
    number.type, number.label = number.TYPE_INT32, number.LABEL_OPTIONAL
    orders = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    orders.dependency.extend(["sizes.proto", "google/protobuf/timestamp.proto"])
    order = orders.message_type.add(name="Order")
    for index, (name, type_name) in enumerate(
        [("name", None), ("size", ".shop.Size"), ("at", ".google.protobuf.Timestamp")], 1
    ):
        field = order.field.add(name=name, number=index, label=number.LABEL_OPTIONAL)
        field.type = number.TYPE_STRING if type_name is None else number.TYPE_MESSAGE
        if type_name is not None:
            field.type_name = type_name
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for file in (sizes, orders):
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_ids_in_headers_are_guids(client: Any) -> None:
    headers: list[Any] = []
    context = SerializationContext("users", MessageField.VALUE, headers)
    conf = {"schema.id.serializer": header_schema_id_serializer}
    data = AvroSerializer(client, AVRO_USER, conf=conf)(USER, context)
    guid = client.get_latest_version("users-value").guid
    assert len(headers) == 1
    assert client.get_schema_by_guid(guid).schema_str == (
        client.get_latest_version("users-value").schema.schema_str
    )
    other = SchemaRegistryClient({"url": client._rest_client.base_urls[0]})
    assert AvroDeserializer(other)(data, context) == USER


def test_incompatible_schema_is_not_registered(client: Any) -> None:
    AvroSerializer(client, AVRO_USER)(USER, VALUES)
    more = AVRO_USER.replace('"age"', '"years"')
    with pytest.raises(SchemaRegistryError, match="reader_field_missing") as raised:
        AvroSerializer(client, more)({"name": "ann", "years": 7}, VALUES)
    assert (raised.value.http_status_code, raised.value.error_code) == (409, 409)
    assert client.get_versions("users-value") == [1]
