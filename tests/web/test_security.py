"""Which requests are refused, decided from plain facts."""

from __future__ import annotations

import dataclasses

import pytest

from beadline.web.security import LARGEST_BODY, Request, Rules, host_name, refusal

TOKEN = "0123456789abcdef"
RULES = Rules.of(TOKEN, "127.0.0.1")
OPEN = Rules.of(None, "127.0.0.1")


def request(method: str = "GET", path: str = "/jobs", client: str | None = "127.0.0.1", **headers: str) -> Request:
    given = {name.replace("_", "-"): [value] for name, value in headers.items()}
    return Request(method, path, {"host": ["127.0.0.1:8081"], **given}, client)


def status(asked: Request, rules: Rules = RULES) -> int | None:
    refused = refusal(asked, rules)
    return None if refused is None else refused[0]


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "localhost:9", "LocalHost", "[::1]:8081", "[::1]"])
def test_this_machine_has_these_names(host: str) -> None:
    assert status(request(host=host)) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8081",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "127.0.0.1:8081@evil.example",
        "[::1",
        "",
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(host: str) -> None:
    """DNS rebinding: the browser takes the page's server for this one, but still says its name."""
    assert status(request(host=host)) == 403
    assert status(request("POST", host=host, authorization=f"Bearer {TOKEN}")) == 403


def test_a_request_has_one_host() -> None:
    none = Request("GET", "/jobs", {}, "127.0.0.1")
    two = Request("GET", "/jobs", {"host": ["127.0.0.1", "evil.example"]}, "127.0.0.1")
    assert (status(none), status(two)) == (400, 400)


def test_the_name_that_the_user_gave_the_machine_is_one_of_its_names() -> None:
    rules = Rules.of(TOKEN, "0.0.0.0", "jobs.example.org")
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert status(request(host="jobs.example.org:8081", **shown), rules) is None
    assert status(request(host="other.example.org:8081", **shown), rules) == 403


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:8082", "http://localhost:8081"])
def test_pages_of_other_servers_are_refused_also_with_the_token(method: str, origin: str) -> None:
    assert status(request(method, origin=origin, authorization=f"Bearer {TOKEN}")) == 403
    assert status(request(method, origin=origin), OPEN) == 403


def test_the_dashboard_s_own_calls_pass() -> None:
    own = {"origin": "http://127.0.0.1:8081", "sec_fetch_site": "same-origin"}
    assert status(request("POST", authorization=f"Bearer {TOKEN}", **own)) is None
    assert status(request("POST", **own), OPEN) is None


def test_a_link_to_the_dashboard_may_be_followed_and_nothing_else_be_loaded_by_another_site() -> None:
    assert status(request(path="/", sec_fetch_site="cross-site", sec_fetch_mode="navigate")) is None
    assert status(request(sec_fetch_site="cross-site", sec_fetch_mode="no-cors")) == 403
    assert status(request("POST", sec_fetch_site="cross-site", sec_fetch_mode="navigate"), OPEN) == 403


def test_reading_on_this_machine_needs_no_token_and_a_change_does() -> None:
    assert status(request("GET")) is None
    assert status(request("HEAD")) is None
    for method in ("POST", "PATCH", "PUT", "DELETE", "OPTIONS", "TRACE", "MADE-UP"):
        assert status(request(method)) == 401
        assert status(request(method, authorization=f"Bearer {TOKEN}")) is None
        assert status(request(method, x_beadline_token=TOKEN)) is None


@pytest.mark.parametrize(
    "shown",
    [
        {"authorization": "Bearer wrong-wrong-wrong"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer "},
        {"x_beadline_token": ""},
        {"x_beadline_token": TOKEN[:-1]},
        {"x_beadline_token": "ü"},
    ],
)
def test_another_token_is_none(shown: dict[str, str]) -> None:
    assert status(request("POST", **shown)) == 401


def test_other_machines_need_the_token_for_reading_too_but_not_for_the_page_itself() -> None:
    rules = Rules.of(TOKEN, "0.0.0.0")
    assert status(request(client="192.168.1.7"), rules) == 401
    assert status(request(client="192.168.1.7", authorization=f"Bearer {TOKEN}"), rules) is None
    assert status(request(path="/", client="192.168.1.7"), rules) is None
    assert status(request(path="/assets/app.js", client="192.168.1.7"), rules) is None
    assert status(request("POST", "/", client="192.168.1.7"), rules) == 401
    assert status(request(client="::1"), rules) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"x_forwarded_for": "192.168.1.7"},
        {"x_forwarded_for": "127.0.0.1"},
        {"x_forwarded_proto": "https"},
        {"x_forwarded_host": "jobs.example.org"},
        {"forwarded": "for=127.0.0.1"},
        {"via": "1.1 proxy"},
        {"x_real_ip": "127.0.0.1"},
        {"cf_connecting_ip": "127.0.0.1"},
    ],
)
def test_a_proxy_on_this_machine_speaks_for_others(headers: dict[str, str]) -> None:
    assert status(request(**headers)) == 401
    assert status(request(authorization=f"Bearer {TOKEN}", **headers)) is None
    assert status(request(path="/", **headers)) is None
    assert status(request(**headers), OPEN) == 403
    assert status(request("POST", **headers), OPEN) == 403


def test_a_proxy_that_names_nobody_is_known_by_its_old_protocol() -> None:
    """nginx speaks HTTP/1.0 to servers unless it is told otherwise."""
    old = dataclasses.replace(request(), version="1.0")
    assert (status(old), status(old, OPEN)) == (401, 403)


PRIVATE = [
    "/jobs/x/beadline/state",
    "/jobs/x/beadline/state/key",
    "/jobs/x/beadline/state/largest",
    "/jobs/x/beadline/config",
    "/jobs/x/beadline/config/",
    "/jobs/x/jobmanager/config",
    "/applications/x/jobmanager/config",
    "/jobmanager/config",
]


@pytest.mark.parametrize("path", PRIVATE)
def test_state_and_options_are_for_the_owner_alone(path: str) -> None:
    """Other users of the machine can't read the files that they are in either."""
    assert status(request(path=path)) == 401
    assert status(request("HEAD", path=path)) == 401
    assert status(request(path=path, authorization=f"Bearer {TOKEN}")) is None
    assert status(request(path=path), OPEN) is None


@pytest.mark.parametrize(
    "path", ["/jobs/x", "/jobs/x/config", "/jobs/overview", "/config", "/jobs/x/checkpoints/config"]
)
def test_all_else_may_be_read_on_this_machine_unless_reading_needs_the_token_too(path: str) -> None:
    rules = Rules.of(TOKEN, "127.0.0.1", read_token=True)
    assert status(request(path=path)) is None
    assert status(request(path=path), rules) == 401
    assert status(request(path=path, authorization=f"Bearer {TOKEN}"), rules) is None
    assert status(request(path="/assets/app.js"), rules) is None


def test_without_a_token_nobody_from_elsewhere_gets_anything() -> None:
    assert status(request("POST"), OPEN) is None
    assert status(request(client="192.168.1.7"), OPEN) == 403
    assert status(request(client=None), OPEN) == 403


def test_long_bodies_are_refused_by_what_they_say_of_their_length() -> None:
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert status(request("POST", content_length=str(LARGEST_BODY), **shown)) is None
    assert status(request("POST", content_length=str(LARGEST_BODY + 1), **shown)) == 413
    assert status(request("POST", content_length="9" * 5000, **shown)) == 413
    assert status(request("POST", content_length="-1", **shown)) == 400


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("a:1", "a"),
        ("A.", "a"),
        ("[::1]:80", "::1"),
        ("a:b", None),
        ("[::1]x", None),
        ("::1", None),
        ("", None),
    ],
)
def test_names_in_host_headers(host: str, name: str | None) -> None:
    assert host_name(host) == name
