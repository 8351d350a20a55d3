"""The table of the APIs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import purgatory_broker.api as package
from purgatory_broker.api.registry import APIS, find_api
from purgatory_broker.api.served_api import ServedApi
from request_purgatory.errors import InvalidArgumentError
from tests.broker.wire.schemas import request_class, response_class

every_api = pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)


@every_api
def test_key_and_classes_are_those_of_the_name(api: ServedApi) -> None:
    """The name is the one in Kafka's protocol."""
    classes = (api.messages.request, api.messages.response)
    assert [each.__name__ for each in classes] == [f"{api.name}Request", f"{api.name}Response"]
    assert [each.API_KEY for each in (request_class(api), response_class(api))] == [api.key] * 2


def test_each_api_of_a_file_is_in_the_table() -> None:
    files = Path(package.__path__[0]).glob("*.py")
    defined = [
        name
        for path in files
        # Some files make APIs that are much alike by a function.
        for name in re.findall(r"^([A-Z_]+) = (?:ServedApi|_api)\(", path.read_text(), re.MULTILINE)
    ]
    names = [re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).upper() for api in APIS.values()]
    assert sorted(defined) == sorted(names)


@pytest.mark.parametrize("name", ["ListOffsets", "list_offsets", "list-offsets", "LISTOFFSETS"])
def test_api_is_found_by_any_spelling_of_its_name(name: str) -> None:
    assert find_api(name).key == 2


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"api must be one of AddOffsetsToTxn, .* got 'Nope'"
    ):
        find_api("Nope")
