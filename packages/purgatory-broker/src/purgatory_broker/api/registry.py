"""The table of the APIs that the files of this package define."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Iterator
from typing import Any

import purgatory_broker.api as package
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker.api.access import require_all
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import Q, ServedApi
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.request_context import RequestContext
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import InvalidArgumentError

logger = logging.getLogger(__name__)
_errors = ErrorLog(logger)


def _apis() -> Iterator[ServedApi[Any, Any]]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, ServedApi):
                yield value


#: Every API by its key.
APIS: dict[int, ServedApi[Any, Any]] = {
    api.key: api for api in sorted(_apis(), key=lambda api: api.key)
}


def find_api(name: str) -> ServedApi[Any, Any]:
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


def handle(broker: BrokerApi, api: ServedApi[Q, Any], context: RequestContext, request: Q) -> None:
    """Handle a request, now or later.

    What the controller refuses as a whole is answered with its error. If the handler fails, the
    error is logged, and the response is UNKNOWN_SERVER_ERROR.
    """
    try:
        if api.needs_controller and not broker.reaches_controller:
            context.reply(api.error_response(request, ErrorCode.REQUEST_TIMED_OUT, context.version))
            return
        require_all(broker, api, context, request)
        if api.answer is not None:
            context.reply(api.answer(broker, context, request))
        elif api.handle is not None:
            api.handle(broker, context, request)
    except WireError:
        raise
    except Exception as error:
        if context.answered:
            raise
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        if isinstance(error, ControllerError):
            code = error.code
        else:
            shown = "(hidden)" if api.secrets else request
            _errors.log(
                error, "node %d can't handle a %s request: %s", broker.node_id, api.name, shown
            )
        try:
            response = api.error_response(request, code, context.version)
        except Exception:
            raise WireError(
                f"the {api.name} request failed and has no error response: {error!r}"
            ) from error
        if code is ErrorCode.UNKNOWN_SERVER_ERROR and context.on_failure is not None:
            context.on_failure(error)
        context.reply(response)
