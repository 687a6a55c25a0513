"""Who may ask what: the rules that every request passes before any code that answers it.

The server listens on the machine of somebody who also has a browser open. So three kinds of callers must be told apart:
the user's own tools, web pages that make the browser call (**foreign origin**), and web pages whose name was made to
point to this machine (**DNS rebinding**). And other people, if the server listens on more than the loopback interface.

1. ``Host`` must be there once, and name this machine: that ends DNS rebinding.
2. ``Origin``, which browsers add, must be the page's own server, and ``Sec-Fetch-Site`` must not say that another site
   asks, unless the user follows a link to a page. That ends foreign pages.
3. Whoever changes something shows the token, which is in a file that only the user can read. So does whoever looks at
   state or options, whose files are closed to other users too, and whoever comes from another machine or through a
   proxy, also for reading. Only the files of the dashboard itself, which hold nothing, are for everybody.
4. A body has at most 64 kB.

A refusal is decided from plain facts (:func:`refusal`), so that it can be tested without a server.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

LARGEST_BODY = 64 << 10
TOKEN_HEADER = "x-beadline-token"
_READING = frozenset({"GET", "HEAD"})
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
# What the dashboard is made of. It asks for the token itself.
_OPEN_PATHS = ("/static/", "/assets/")
# What other users of the machine may not read in files either.
_PRIVATE_PATHS = re.compile(
    r"/jobs/[^/]+/beadline/(state|config)(/.*)?|(/(jobs|applications)/[^/]+)?/jobmanager/config/?"
)
# What proxies add, besides X-Forwarded-…: each names whom they speak for, or themselves.
_OF_PROXIES = frozenset(
    {
        "via",
        "forwarded",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-original-for",
        "x-original-host",
    }
)
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
    :ivar read_token: whether reading needs the token too, also on this machine
    """

    token: str | None
    names: frozenset[str] = field(default_factory=frozenset)
    read_token: bool = False

    @classmethod
    def of(cls, token: str | None, bound: str, address: str | None = None, read_token: bool = False) -> Rules:
        """For a server that listens at an address; on all of them if that is ``0.0.0.0`` or ``::``."""
        names = {bound, *([address] if address else [])}
        if bound in ("0.0.0.0", "::"):
            host = socket.gethostname()
            names |= {host, socket.getfqdn(), *_addresses(host)}
        return cls(token, frozenset(name.lower() for name in names), read_token)

    def is_token_in(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether these headers of a request show the token."""
        shown = _shown_token(Request.of_scope("", "", headers, None))
        return self.accepts(shown)

    def accepts(self, shown: str | None) -> bool:
        if self.token is None or shown is None:
            return False
        return hmac.compare_digest(shown.encode(), self.token.encode())


@dataclass(frozen=True)
class Request:
    """What the rules look at; headers by name in small letters, with all their values."""

    method: str
    path: str
    headers: dict[str, list[str]]
    client: str | None
    version: str = "1.1"

    @classmethod
    def of_scope(
        cls,
        method: str,
        path: str,
        headers: Iterable[tuple[bytes, bytes]],
        client: str | None,
        version: str = "1.1",
    ) -> Request:
        found: dict[str, list[str]] = {}
        for name, value in headers:
            found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        return cls(method, path, found, client, version)

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
    is_local = _is_local(request)
    is_private = rules.read_token or _PRIVATE_PATHS.fullmatch(request.path) is not None
    if reads and (_is_open(request.path) or (is_local and not is_private)):
        return None
    if rules.token is None and is_local:
        return None
    if rules.token is None:
        return 403, (
            "without a token, only processes of this machine may use this server, and none through a proxy. Give the "
            "job a token: leave beadline.rest.token out, or set it to one that the proxy knows."
        )
    shown = _shown_token(request)
    if shown is None:
        what = "a change" if not reads else "reading this" if is_local else "reading from elsewhere or through a proxy"
        return 401, (
            f"{what} needs the token: send 'Authorization: Bearer <token>'. It is in the job's file under jobs/ in "
            "Beadline's state directory, which `beadline` reads for you."
        )
    if not rules.accepts(shown):
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
    """Whether a process of this machine asks, and asks for itself: a proxy speaks for others. One that names nobody is
    known by HTTP/1.0, which nginx speaks to servers unless it is told otherwise, and hardly anybody else does."""
    if any(name in _OF_PROXIES or name.startswith("x-forwarded-") for name in request.headers):
        return False
    if request.version == "1.0":
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
        path = scope["path"]
        if path == "/v1" or path.startswith("/v1/"):
            path = path[3:] or "/"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        client = scope.get("client")
        version = scope.get("http_version", "1.1")
        request = Request.of_scope(scope["method"], path, scope["headers"], client[0] if client else None, version)
        refused = refusal(request, self._rules)
        if refused is not None:
            await _refuse(*refused, send)
            return
        scope.setdefault("state", {})["is_stranger"] = not self._rules.accepts(_shown_token(request))
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
