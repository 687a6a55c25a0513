"""Settings are read back as what the getter asks for, as Flink 2.3.0 does."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beadline.common import ConfigOptions, Configuration
from beadline.common.option_texts import format_list, format_map, parse_list, parse_map
from beadline.common.outer_options import FOLDER_VARIABLE, read_config_file
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import ConfigurationError


@pytest.fixture
def settings() -> Configuration:
    return (
        Configuration()
        .set_string("a", "1")
        .set_integer("b", 5)
        .set_boolean("c", True)
        .set_float("d", 1e10)
        .set_bytearray("e", bytearray(b"xy"))
    )


def test_values_are_read_back(settings: Configuration) -> None:
    assert settings.get_string("a", "x") == "1"
    assert settings.get_integer("b", 0) == 5
    assert settings.get_boolean("c", False) is True
    assert settings.get_float("d", 0.5) == 1e10
    assert settings.get_bytearray("e", bytearray()) == bytearray(b"xy")


def test_values_are_read_as_other_types(settings: Configuration) -> None:
    assert settings.get_integer("a", 0) == 1
    assert settings.get_float("b", 0.5) == 5.0
    assert [settings.get_string(key, "x") for key in "bcd"] == ["5", "true", "1.0E10"]
    assert Configuration.from_dict({"yes": "TRUE"}).get_boolean("yes", False) is True
    assert Configuration.from_dict({"f": "1e3"}).get_float("f", 0.0) == 1000.0


@pytest.mark.parametrize(
    ("getter", "text"),
    [
        ("get_integer", " 7 "),
        ("get_integer", "7.0"),
        ("get_integer", "true"),
        ("get_integer", str(2**63)),
        ("get_boolean", "yes"),
        ("get_boolean", "1"),
        ("get_float", "true"),
        ("get_float", "1_000"),
        ("get_bytearray", "xy"),
        ("get_duration_ms", "soon"),
        ("get_memory_bytes", "much"),
    ],
)
def test_a_value_that_does_not_parse_is_named_with_its_key(getter: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"The option my\.key has the value"):
        getattr(Configuration.from_dict({"my.key": text}), getter)("my.key", None)


def test_the_default_stands_in_for_what_is_not_set() -> None:
    empty = Configuration()
    assert empty.get_string("x", "y") == "y"
    assert empty.get_string("x", None) is None
    assert empty.get_integer("x", 3) == 3
    assert empty.get_bytearray("x", bytearray(b"z")) == bytearray(b"z")


def test_durations_sizes_lists_and_maps() -> None:
    settings = Configuration.from_dict({"t": "10 s", "m": "64mb", "l": "a;b", "p": "k:v,l:w x"})
    assert settings.get_duration_ms("t", 0) == 10_000
    assert settings.get_memory_bytes("m", 0) == 64 << 20
    assert Configuration.parse_list_value(settings.get_string("l", "")) == ["a", "b"]
    assert settings.get_map("p", {}) == {"k": "v", "l": "w x"}


def test_all_settings_as_text(settings: Configuration) -> None:
    assert settings.to_dict() == {"a": "1", "b": "5", "c": "true", "d": "1.0E10", "e": "!!binary |-\n  eHk="}
    assert settings.key_set() == set("abcde")
    settings.remove_config("e")
    assert str(settings) == "{a=1, b=5, c=true, d=1.0E10}"


def test_all_settings_as_they_were_set(settings: Configuration) -> None:
    target: dict[str, object] = {}
    settings.add_all_to_dict(target)
    assert target == {"a": "1", "b": 5, "c": True, "d": 1e10, "e": b"xy"}


def test_settings_are_taken_over(settings: Configuration) -> None:
    assert Configuration().add_all(settings) == settings
    assert Configuration().add_all(settings, "p.").key_set() == {"p.a", "p.b", "p.c", "p.d", "p.e"}


def test_copies_are_independent(settings: Configuration) -> None:
    for other in (Configuration(settings), copy.deepcopy(settings), pickle.loads(pickle.dumps(settings))):
        assert other == settings
        assert hash(other) == hash(settings)
        other.set_string("a", "2")
        assert other != settings
    assert settings.get_string("a", "") == "1"


def test_a_setting_can_be_removed_once(settings: Configuration) -> None:
    assert settings.remove_config("a") is True
    assert settings.remove_config("a") is False
    assert not settings.contains_key("a")


def test_none_is_no_value() -> None:
    with pytest.raises(ConfigurationError, match="can't be set to None"):
        Configuration().set_string("a", None)  # type: ignore[arg-type]


def test_an_old_key_is_found_under_its_new_name_and_the_other_way_round() -> None:
    old, new = "state.checkpoints.dir", "execution.checkpointing.dir"
    for written, read in ((old, new), (new, old), ("state.backend.fs.checkpointdir", new)):
        settings = Configuration.from_dict({written: "file:///cp"})
        assert settings.get_string(read, "") == "file:///cp"
        assert settings.contains_key(read)
        assert settings.key_set() == {written}
    assert Configuration.from_dict({"restart-strategy": "none"}).get_string("restart-strategy.type", "") == "none"
    assert Configuration.from_dict({"state.backend": "rocksdb"}).get_string("state.backend.type", "") == "rocksdb"


def test_the_name_used_last_counts() -> None:
    settings = Configuration().set_string("execution.checkpointing.dir", "first")
    settings.set_string("state.checkpoints.dir", "second")
    assert settings.get_string("execution.checkpointing.dir", "") == "second"
    assert settings.remove_config("execution.checkpointing.dir")
    assert not settings.contains_key("state.checkpoints.dir")


def test_options_with_type_and_default() -> None:
    limit = ConfigOptions.key("my.limit").int_type().default_value(100)
    name = ConfigOptions.key("my.name").string_type().no_default_value()
    settings = Configuration()
    assert settings.get(limit) == 100
    assert settings.get(name) is None
    settings.set(limit, 7).set(name, "x")
    assert (settings.get(limit), settings.get(name)) == (7, "x")
    settings.set(limit, 2**40)
    with pytest.raises(ConfigurationError, match="an int of 32 bits"):
        settings.get(limit)
    assert settings.get(ConfigOptions.key("my.limit").long_type().default_value(0)) == 2**40
    assert settings.get(ConfigOptions.key("x").double_type().default_value(0.5)) == 0.5
    assert settings.get(ConfigOptions.key("x").float_type().default_value(0.5)) == 0.5
    assert settings.get(ConfigOptions.key("x").boolean_type().default_value(True)) is True
    assert limit == ConfigOptions.key("my.limit").int_type().default_value(100)


# As PyFlink 2.3.0 gives them.
@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("[a, b]", ["a", "b"]),
        ("a;b", ["a", "b"]),
        ("a", ["a"]),
        ("", []),
        ('["x;y", 5]', ["x;y", 5]),
        ("- a\n- b", ["a", "b"]),
        ("'it''s';x", ["it's", "x"]),
    ],
)
def test_the_elements_of_a_list(text: str, elements: list[object]) -> None:
    assert Configuration.parse_list_value(text) == elements


def test_maps_in_both_forms() -> None:
    assert parse_map("a:1,b:x y") == {"a": "1", "b": "x y"}
    assert parse_map('{a: 1, b: "c,d"}') == {"a": "1", "b": "c,d"}
    assert parse_map("url:http://host:1") == {"url": "http://host:1"}
    assert parse_map("") == {}
    with pytest.raises(ConfigurationError, match="'b' has no ':'"):
        parse_map("a:1,b")
    with pytest.raises(ConfigurationError, match="never closed"):
        parse_map("a:'1,b:2")


@given(st.dictionaries(st.text(), st.text()))
def test_a_map_reads_back(entries: dict[str, str]) -> None:
    assert parse_map(format_map(entries)) == entries


@given(st.lists(st.text()))
def test_a_list_reads_back(items: list[str]) -> None:
    assert [str(item) for item in parse_list(format_list(items))] == items


# -- options for all jobs of an installation


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path / "config.yaml"


def test_nested_and_dotted_keys_mean_the_same(config: Path) -> None:
    config.write_text(
        "execution:\n  checkpointing:\n    interval: 5 s\n    unaligned.enabled: true\nparallelism.default: 3\n"
    )
    assert read_config_file() == {
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.unaligned.enabled": "true",
        "parallelism.default": "3",
    }


def test_a_program_wins_over_the_file(config: Path) -> None:
    config.write_text("parallelism:\n  default: 3\nrestart-strategy:\n  type: none\n")
    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 3
    own = Configuration().set_string("parallelism.default", "2")
    assert StreamExecutionEnvironment.get_execution_environment(own).get_parallelism() == 2


def test_an_empty_file_and_no_variable_say_nothing(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("")
    assert read_config_file() == {}
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert read_config_file() == {}


@pytest.mark.parametrize(("content", "complaint"), [("a: [", "not valid YAML"), ("- a\n- b\n", "key: value")])
def test_a_file_that_says_nothing_sensible_is_refused(config: Path, content: str, complaint: str) -> None:
    config.write_text(content)
    with pytest.raises(ConfigurationError, match=complaint):
        read_config_file()


def test_a_file_that_is_missing_is_an_error(config: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't be read"):
        read_config_file()
