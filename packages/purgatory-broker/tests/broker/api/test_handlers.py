"""What holds for the handler of every API."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import is_dataclass
from typing import Any

import pytest

from purgatory_broker._wire.messages import read_header, read_request
from purgatory_broker.api.registry import APIS
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.request_context import Client, RequestContext
from tests.broker.hostile.sample_requests import TOPIC, frame
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_handler_does_not_change_its_request(api: ServedApi[Any, Any]) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic(TOPIC)
        harness.cluster.create_offsets_topic()
        await harness.settle()
        for version in range(api.min_version, api.max_version + 1):
            raw = frame(api, version)
            header = read_header(raw, APIS)
            request = read_request(raw, header)
            _repeat_arrays(request)
            before = repr(request)
            context = RequestContext(
                header, Client("app", "/127.0.0.1"), lambda *_: None, lambda _reason: None
            )
            harness.node(0).requests.handle(context, request)
            await harness.settle()
            assert repr(request) == before, version

    run_scenario(scenario, nodes=1)


def _repeat_arrays(part: Any) -> None:
    """Repeat the elements of all arrays, with a partition that does not exist if they have one."""
    for name in _field_names(part):
        values = getattr(part, name)
        if not isinstance(values, list):
            continue
        repeated = copy.deepcopy(values)
        for each in values:
            _repeat_arrays(each)
        for each in repeated:
            if hasattr(each, "partition_index"):
                each.partition_index = 999
        values += repeated


def _field_names(part: Any) -> list[str]:
    """Return the names of the fields of a struct; of text or a number, none."""
    return [each.name for each in dataclasses.fields(part)] if is_dataclass(part) else []
