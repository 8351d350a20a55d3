"""The table of the APIs: what each file of this package defines as `API`."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Iterator
from typing import Any

import purgatory_broker.api as package
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import R, ServedApi
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.wire_error import WireError
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)


def _apis() -> Iterator[ServedApi[Any]]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        api = getattr(importlib.import_module(module.name), "API", None)
        if isinstance(api, ServedApi):
            yield api


#: Every API by its key.
APIS: dict[int, ServedApi[Any]] = {api.key: api for api in sorted(_apis(), key=lambda api: api.key)}


def find_api(name: str) -> ServedApi[Any]:
    """Return the API of a name, in any case, with or without underscores or dashes.

    `ListOffsets`, `list_offsets` and `list-offsets` are the same name.
    """
    if isinstance(name, str):
        plain = name.replace("_", "").replace("-", "").lower()
        for api in APIS.values():
            if api.name.lower() == plain:
                return api
    known = ", ".join(sorted(api.name for api in APIS.values()))
    raise InvalidArgumentError("api", f"one of {known}", name)


def decode(api: ServedApi[R], message: Any, context: RequestContext) -> R:
    """Return what an API's handler gets of a message."""
    try:
        return api.decode(message, context)
    except WireError:
        raise
    except Exception as error:
        shown = "(hidden)" if api.secrets else message
        _errors.log(error, "can't decode a %s request: %s", api.name, shown)
        raise WireError(f"a {api.name} request can't be decoded: {error!r}") from error


def handle(broker: BrokerApi, api: ServedApi[R], context: RequestContext, request: R) -> None:
    """Handle a request, now or later.

    If the handler fails, the error is logged, and the response is UNKNOWN_SERVER_ERROR.
    """
    try:
        api.handle(broker, context, request)
    except WireError:
        raise
    except Exception as error:
        if context.answered:
            raise
        _errors.log(
            error, "node %d can't handle a %s request: %s", broker.node_id, api.name, request
        )
        try:
            response = api.error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        except Exception:
            raise WireError(
                f"the {api.name} request failed and has no error response: {error!r}"
            ) from error
        context.reply(response)
