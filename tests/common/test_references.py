"""Values of options that stand in the environment or in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from beadline.common import Configuration
from beadline.common.secrets import masked
from beadline.errors import ConfigurationError
from beadline.master.client.rest_settings import RestSettings

TOKEN = "a-token-of-the-owner"


def test_a_variable_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "8081")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    options = {
        "rest.port": "${env:PORT}",
        "beadline.rest.token": f"${{file:{tmp_path}/token}}",
        "url": "h:${env:PORT}/x",
    }
    configuration = Configuration.from_dict(options)
    assert configuration.get_integer("rest.port", 0) == 8081
    assert configuration.get_string("url", "") == "h:8081/x"
    assert RestSettings.from_configuration(configuration).token == TOKEN
    assert configuration.to_dict() == options, "what is shown and kept is the reference"
    assert TOKEN not in str(configuration) + repr(configuration) + str(masked(configuration.to_dict()))


def test_entries_of_a_map_may_have_anything_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "a,b:c}d'")
    for text in ("user:ann,password:${env:PW}", "{user: ann, password: '${env:PW}'}"):
        found = Configuration.from_dict({"parameters": text}).get_map("parameters", {})
        assert found == {"user": "ann", "password": "a,b:c}d'"}


def test_what_is_not_there_is_named_and_what_is_wrong_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    monkeypatch.setenv("SECRET", "hunter2")
    configuration = Configuration.from_dict(
        {"a": "${env:NOWHERE}", "b": f"${{file:{tmp_path}/none}}", "c": "${env:SECRET}"}
    )
    with pytest.raises(ConfigurationError, match="option a is to be the variable NOWHERE of the environment"):
        configuration.get_string("a", "")
    with pytest.raises(ConfigurationError, match=r"option b is to be the content of the file .*/none"):
        configuration.get_string("b", "")
    with pytest.raises(ConfigurationError) as raised:
        configuration.get_integer("c", 0)
    assert "${env:SECRET}" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("text", ["$HOME", "${HOME}", "a$b{c}", "${sys:x}", "${env:}"])
def test_all_else_is_text(text: str) -> None:
    assert Configuration.from_dict({"a": text}).get_string("a", "") == text
