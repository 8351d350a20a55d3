"""Requests to the page's server: parsing, and who may send which.

The server is for the browser of the person at the machine. Other pages in the same browser are the
danger: they can send requests to loopback, and a name of theirs can be made to point to it (DNS
rebinding).
"""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException, parse_headers
from urllib.parse import urlsplit

#: The longest request line with all headers, and the longest body.
MAX_HEAD_BYTES = 16 * 1024
MAX_BODY_BYTES = 64 * 1024
#: Names of this machine for itself.
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class RequestError(Exception):
    """A request that is refused, with the response's status."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request.

    Attributes:
        method: In capitals, as GET.
        path: Without the query.
        headers: By names in any case.
        body: Empty for GET.
    """

    method: str
    path: str
    headers: Message
    body: bytes

    def check_host(self) -> None:
        """Refuse a request to any other name than this machine's own.

        A page of another site whose name was made to point here sends its name in `Host`.
        """
        host = str(self.headers.get("Host", ""))
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            name = None
        if name not in _LOCAL:
            raise RequestError(
                HTTPStatus.FORBIDDEN, f"this server is addressed as localhost, not {host!r}"
            )

    def check_not_foreign(self) -> None:
        """Refuse a request that a page of another site has made, by what the browser says of it."""
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if origin not in (None, self._own_origin) or site not in ("none", "same-origin"):
            raise RequestError(HTTPStatus.FORBIDDEN, "only this server's own page may ask for this")

    def check_from_own_page(self) -> None:
        """Refuse a request for an action unless this server's own page sent it.

        Browsers send `Origin` with every POST, and let no page choose it. The type of the content
        is none that a form can send.
        """
        if self.headers.get("Origin") != self._own_origin:
            raise RequestError(HTTPStatus.FORBIDDEN, "only this server's own page may do this")
        self.check_not_foreign()
        if self.headers.get_content_type() != "application/json":
            raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")

    @property
    def _own_origin(self) -> str:
        return f"http://{self.headers.get('Host', '')}"


async def read_request(reader: asyncio.StreamReader) -> HttpRequest:
    """Read one request; RequestError if it is none of HTTP/1, or too long."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise RequestError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"
        ) from None
    line, _, rest = head.partition(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise RequestError(HTTPStatus.BAD_REQUEST, "expected a request of HTTP/1")
    try:
        headers = parse_headers(io.BytesIO(rest))
        length = int(headers.get("Content-Length", "0"))
    except (HTTPException, ValueError):
        raise RequestError(HTTPStatus.BAD_REQUEST, "the headers are not valid") from None
    if not 0 <= length <= MAX_BODY_BYTES:
        raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too long")
    body = await reader.readexactly(length)
    return HttpRequest(words[0], words[1].partition("?")[0], headers, body)
