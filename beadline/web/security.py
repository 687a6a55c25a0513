"""Who may ask what: the rules that every request passes before any code that answers it.

The server listens on the machine of somebody who also has a browser open. So three kinds of callers must be told apart:
the user's own tools, web pages that make the browser call (**foreign origin**), and web pages whose name was made to
point to this machine (**DNS rebinding**). And other people, if the server listens on more than the loopback interface.

1. ``Host`` must be there once, and name this machine: that ends DNS rebinding.
2. ``Origin``, which browsers add, must be the page's own server, and ``Sec-Fetch-Site`` must not say that another site
   asks, unless the user follows a link to a page. That ends foreign pages.
3. Whoever changes something shows the token, which is in a file that only the user can read. So does whoever comes from
   another machine, also for reading; only the files of the dashboard itself, which hold nothing, are for everybody.
4. A body has at most 64 kB.

A refusal is decided from plain facts (:func:`refusal`), so that it can be tested without a server.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

LARGEST_BODY = 64 << 10
TOKEN_HEADER = "x-beadline-token"
_READING = frozenset({"GET", "HEAD"})
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
# What the dashboard is made of. It asks for the token itself.
_OPEN_PATHS = ("/static/", "/assets/")
_OPEN_FILES = frozenset({"/", "/index.html", "/favicon.ico", "/favicon.svg"})

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_MAY = b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _MAY),
)


@dataclass(frozen=True)
class Rules:
    """What this server asks of callers.

    :ivar token: None if changes need none, which is for the loopback interface only
    :ivar names: the names of this machine, besides those of the loopback interface, that ``Host`` may have
    """

    token: str | None
    names: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, token: str | None, bound: str, address: str | None = None) -> Rules:
        """For a server that listens at an address; on all of them if that is ``0.0.0.0`` or ``::``."""
        names = {bound, *([address] if address else [])}
        if bound in ("0.0.0.0", "::"):
            host = socket.gethostname()
            names |= {host, socket.getfqdn(), *_addresses(host)}
        return cls(token, frozenset(name.lower() for name in names))


@dataclass(frozen=True)
class Request:
    """What the rules look at; headers by name in small letters, with all their values."""

    method: str
    path: str
    headers: dict[str, list[str]]
    client: str | None

    def header(self, name: str) -> str | None:
        values = self.headers.get(name)
        return values[0] if values else None


Refusal = tuple[int, str]


def refusal(request: Request, rules: Rules) -> Refusal | None:
    """The status and the sentence with which a request is refused; None if it may go on."""
    return _wrong_host(request, rules) or _foreign(request) or _too_large(request) or _without_token(request, rules)


def _wrong_host(request: Request, rules: Rules) -> Refusal | None:
    hosts = request.headers.get("host", [])
    if len(hosts) != 1:
        return 400, f"a request names one Host, this one {len(hosts)}"
    name = host_name(hosts[0])
    if name is None or (name not in _LOOPBACK_NAMES and name not in rules.names):
        return 403, (
            "the Host of the request is not a name of this server. Use http://127.0.0.1 and the port, or set "
            "rest.address to the name by which others reach this machine."
        )
    return None


def _foreign(request: Request) -> Refusal | None:
    origins = request.headers.get("origin", [])
    host = request.header("host")
    for origin in origins:
        if origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            return 403, "the request comes from a page of another server (Origin), which may not use this one"
    follows_link = request.method == "GET" and request.header("sec-fetch-mode") == "navigate"
    if request.header("sec-fetch-site") in ("cross-site", "same-site") and not follows_link:
        return 403, "the request comes from a page of another server (Sec-Fetch-Site), which may not use this one"
    return None


def _too_large(request: Request) -> Refusal | None:
    lengths = request.headers.get("content-length", [])
    for length in lengths:
        if not (length.isascii() and length.isdigit()):
            return 400, "Content-Length is not a number"
        if len(length) > 12 or int(length) > LARGEST_BODY:
            return 413, f"a body may have {LARGEST_BODY} bytes"
    return None


def _without_token(request: Request, rules: Rules) -> Refusal | None:
    reads = request.method in _READING
    if reads and (_is_open(request.path) or _is_local(request)):
        return None
    if rules.token is None and _is_local(request):
        return None
    if rules.token is None:
        return 403, "without a token, only processes of this machine may use this server"
    shown = _shown_token(request)
    if shown is None:
        what = "reading from another machine" if reads else "a change"
        return 401, (
            f"{what} needs the token: send 'Authorization: Bearer <token>'. It is in the job's file under jobs/ in "
            "Beadline's state directory, which `beadline` reads for you."
        )
    if not hmac.compare_digest(shown.encode(), rules.token.encode()):
        return 401, "this is not the token of this server; it has a new one since its driver was started"
    return None


def _shown_token(request: Request) -> str | None:
    own = request.header(TOKEN_HEADER)
    if own is not None:
        return own
    kind, _, token = (request.header("authorization") or "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None


def _is_open(path: str) -> bool:
    return path in _OPEN_FILES or path.startswith(_OPEN_PATHS)


def _is_local(request: Request) -> bool:
    """Whether a process of this machine asks, and asks for itself: a proxy speaks for others."""
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    try:
        return request.client is not None and ipaddress.ip_address(request.client).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str | None:
    """The name in a ``Host`` header, without the port; None if it is not one."""
    if host.startswith("["):
        name, closed, rest = host[1:].partition("]")
        if not closed or (rest and not (rest.startswith(":") and rest[1:].isdigit())):
            return None
        return name.lower()
    name, colon, port = host.partition(":")
    if colon and not port.isdigit():
        return None
    return name.lower().rstrip(".") or None


def _addresses(host: str) -> set[str]:
    try:
        return {str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


class Guard:
    """Stands before an app: refuses what the rules refuse, cuts off bodies that are too long, and adds the headers that
    tell browsers what a page of ours may do. Paths may begin with ``/v1``, as Flink's do."""

    def __init__(self, app: App, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        path = scope["path"]
        if path == "/v1" or path.startswith("/v1/"):
            path = path[3:] or "/"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        client = scope.get("client")
        request = Request(scope["method"], path, headers, client[0] if client else None)
        refused = refusal(request, self._rules)
        if refused is not None:
            await _refuse(*refused, send)
            return
        body = _Measured(receive)

        async def send_with_headers(message: Message) -> None:
            if body.is_too_long:  # whatever the app made of that
                return
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                own = [header for header in _ALWAYS if header[0] not in present]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        with contextlib.suppress(_TooLong):
            await self._app(scope, body.receive, send_with_headers)
        if body.is_too_long:
            await _refuse(413, f"a body may have {LARGEST_BODY} bytes", send)


class _TooLong(Exception):
    """A body goes on after the bytes that it may have."""


class _Measured:
    """Counts the bytes of a body that comes without its length."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._bytes = 0

    @property
    def is_too_long(self) -> bool:
        return self._bytes > LARGEST_BODY

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            if self.is_too_long:
                raise _TooLong
        return message


async def _refuse(status: int, text: str, send: Send) -> None:
    body = json.dumps({"errors": [text]}).encode()
    headers = [
        (b"content-type", b"application/json; charset=UTF-8"),
        (b"content-length", str(len(body)).encode()),
        *((name, value) for name, value in _ALWAYS),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (400, 413):
        headers.append((b"connection", b"close"))  # what is left of the body is nobody's
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
