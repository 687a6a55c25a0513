"""What the options of the REST server may be."""

from __future__ import annotations

import pytest

from beadline.common import Configuration
from beadline.errors import ConfigurationError
from beadline.master.client.rest_settings import RestSettings


def settings(**options: str) -> RestSettings:
    made = Configuration()
    for key, value in options.items():
        made.set_string(key, value)
    return RestSettings.from_configuration(made)


def test_by_default_a_free_port_of_this_machine_and_a_new_token() -> None:
    found = settings()
    assert (found.enabled, found.host, list(found.candidates()), found.token) == (True, "127.0.0.1", [0], None)


def test_ports_are_one_several_or_a_range_and_the_bound_one_wins() -> None:
    assert list(settings(**{"rest.port": "8081"}).candidates()) == [8081]
    both = settings(**{"rest.port": "8081", "rest.bind-port": "9000-9002, 9010"})
    assert list(both.candidates()) == [9000, 9001, 9002, 9010]
    assert both.ports_text() == "9000-9002,9010"


@pytest.mark.parametrize("text", ["70000", "-1", "x", "8081-", "9-8", "", "1,,2"])
def test_a_port_that_can_not_be_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rest.bind-port is .* takes a port from 0 .* to 65535, a range"):
        settings(**{"rest.bind-port": text})


def test_a_range_belongs_to_the_other_option() -> None:
    with pytest.raises(ConfigurationError, match=r"takes one port. A range goes to rest.bind-port"):
        settings(**{"rest.port": "8081-8090"})


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.7", "::", "example.org"])
def test_without_a_token_only_on_this_machine(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"loopback interface only, not with rest.bind-address"):
        settings(**{"rest.bind-address": address, "beadline.rest.token": "none"})


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_loopback_has_several_names(address: str) -> None:
    assert settings(**{"rest.bind-address": address, "beadline.rest.token": "none"}).on_loopback


def test_a_token_is_long_enough_and_does_not_appear_in_the_message() -> None:
    with pytest.raises(ConfigurationError, match=r"at least 16 letters") as raised:
        settings(**{"beadline.rest.token": "hunter2"})
    assert "hunter2" not in str(raised.value)
    assert settings(**{"beadline.rest.token": "0123456789abcdef"}).token == "0123456789abcdef"
