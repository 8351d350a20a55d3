"""The requests that list, describe and delete groups."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)

from tests.broker.groups.captured_response import CapturedResponse, Sender


class AdministrationRequests(Sender):
    def list_groups(
        self, states: tuple[str, ...] = (), types: tuple[str, ...] = (), *, version: int = 5
    ) -> Any:
        request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
        return self.send(request, version).response

    def describe_groups(self, *group_ids: str, operations: bool = False, version: int = 6) -> Any:
        request = DescribeGroupsRequest(
            groups=[*group_ids], include_authorized_operations=operations
        )
        return self.send(request, version).response.groups

    def delete_groups(self, *group_ids: str, version: int = 2) -> CapturedResponse:
        return self.send(DeleteGroupsRequest(groups_names=[*group_ids]), version)
