"""Formats of text logs, as the gateway's own configuration has them.

Sources: nginx's `log_format`; Envoy's access log format strings; "Access logs for your Application
Load Balancer" of AWS.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from purgatory_spark._errors import TraceFormatError

#: Formats that need not be written out: Envoy's default, and that of AWS.
KNOWN_FORMATS = {
    "envoy": (
        '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" '
        "%RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% "
        '%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" '
        '"%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"'
    ),
    "alb": (
        "$type $time $elb ${client:port} ${target:port} $request_processing_time "
        "$target_processing_time $response_processing_time $elb_status_code $target_status_code "
        '$received_bytes $sent_bytes "$request" "$user_agent" $ssl_cipher $ssl_protocol '
        '$target_group_arn "$trace_id" "$domain_name" "$chosen_cert_arn" $matched_rule_priority '
        "$request_creation_time"
    ),
}

#: What the variables mean, by field; of several the first one that a format has.
_MEANINGS: Mapping[str, tuple[str, ...]] = {
    "arrived_at": ("START_TIME", "request_creation_time"),
    "ended_at": ("msec", "time_iso8601", "time_local", "time"),
    "service_s": ("request_time",),
    "service_ms": ("DURATION",),
    "host": ("upstream_addr", "UPSTREAM_HOST", "target:port"),
    "request_type": ("request_method",),
}
#: The statuses of requests that were given up: by the gateway at its timeout, or by the client.
_UNANSWERED: Mapping[str, tuple[str, ...]] = {
    "status": ("504", "499"),
    "RESPONSE_CODE": ("504", "0"),
    "elb_status_code": ("504", "460"),
}

_VARIABLE = re.compile(r"\$\{([^}]+)\}|\$(\w+)|%([A-Z_0-9]+(?:\([^)]*\))?)(?::\d+)?%")
#: What follows a format's last variable: fields that newer versions have.
_REST = r"(?:\s.*)?$"


def log_columns(log_format: str) -> list[str]:
    """Return the names of a format's variables, which are the log's columns."""
    return compiled(log_format)[1]


def log_settings(log_format: str) -> dict[str, Any]:
    """Return what the variables of a format mean, as attributes of `TableMapping`."""
    names = log_columns(log_format)
    known = {
        field: next((name for name in variables if name in names), None)
        for field, variables in _MEANINGS.items()
    }
    columns = {field: name for field, name in known.items() if name is not None}
    if "arrived_at" in columns:
        # The duration in milliseconds is more exact than the difference of two times.
        columns.pop("ended_at" if "service_ms" in columns else "service_s", None)
    status = next((name for name in _UNANSWERED if name in names), None)
    settings: dict[str, Any] = {"columns": columns}
    if columns.get("ended_at") == "msec":
        settings["time_unit"] = "s"
    if status is not None:
        settings |= {"status": status, "unanswered": _UNANSWERED[status]}
    return settings


def compiled(log_format: str, wanted: Collection[str] | None = None) -> tuple[str, list[str]]:
    """Return a format as a regular expression of Java, and the variables that its groups are of.

    `wanted`: the variables that have a group; None for all.
    """
    text = KNOWN_FORMATS.get(log_format, log_format)
    found = list(_VARIABLE.finditer(text))
    if not found:
        raise TraceFormatError(
            f"the log format {text!r} has no variables, such as $status or %DURATION%; it is the "
            f"text of nginx's log_format or of Envoy's, or one of {', '.join(KNOWN_FORMATS)}"
        )
    names = [next(filter(None, match.groups())) for match in found]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise TraceFormatError(f"the log format has the variable {repeated!r} more than once")
    pattern, at, quotes = "^", 0, 0
    for name, match, following in zip(names, found, [*found[1:], None], strict=True):
        literal = text[at : match.start()]
        quotes += literal.count('"')
        next_literal = text[match.end() : following.start() if following else len(text)]
        if following is not None and not next_literal:
            raise TraceFormatError(
                f"the log format has nothing between {match.group()} and {following.group()}"
            )
        group = "(" if wanted is None or name in wanted else "(?:"
        value = _value(match.group(), next_literal[:1], quotes % 2 == 1)
        pattern += f"{re.escape(literal)}{group}{value})"
        at = match.end()
    groups = [name for name in names if wanted is None or name in wanted]
    return pattern + re.escape(text[at:].rstrip()) + _REST, groups


def _value(variable: str, end: str, is_quoted: bool) -> str:
    """Return the expression of a variable's value that is followed by `end`."""
    if is_quoted and end == '"':
        # Possessive, as there is one way to match.
        return r'[^"\\]*+(?:\\.[^"\\]*+)*+'
    if is_quoted:
        return f'[^"{re.escape(end)}]*'
    if end == "]":
        return r"[^\]]*"
    if variable.startswith("$upstream_"):
        # nginx lists the servers that it tried: "0.1, 0.2" or "0.1 : 0.2".
        return r"[^\s,]*+(?:(?:,| :) [^\s,]++)*+"
    return r"\S*"
