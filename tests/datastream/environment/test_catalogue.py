"""The catalogue of options says what the settings really do."""

from __future__ import annotations

import pytest

from beadline.common import Configuration
from beadline.datastream.environment import options
from beadline.datastream.environment.catalogue import BY_KEY, OPTIONS, Option, meant
from beadline.datastream.environment.options import job_settings, runtime_mode
from beadline.errors import BeadlineError, ConfigurationError

# Flink's internal word for beadline.job-id is not for people.
HIDDEN = {"$internal.pipeline.job-id"}


def test_it_has_every_option_that_has_an_effect_and_no_other() -> None:
    assert set(BY_KEY) == options._EFFECTIVE - HIDDEN
    assert len(OPTIONS) == len(BY_KEY)


@pytest.mark.parametrize("checkpointing", [True, False])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_an_option_that_is_set_to_its_default_changes_nothing(checkpointing: bool, backend: str) -> None:
    def settings(**more: str) -> object:
        configuration = Configuration().set_string("state.backend.type", backend)
        if checkpointing:
            configuration.set_string("execution.checkpointing.interval", "1 s")
        for key, value in more.items():
            configuration.set_string(key, value)
        made = job_settings(configuration, batch=False)
        return repr({**vars(made), "options": None, "origins": None, "clock": None, "monotonic": None})

    for option in OPTIONS:
        # A restart strategy is chosen by its options too.
        if (
            option.default is not None
            and not option.key.startswith("restart-strategy.")
            and option.key != "state.backend.type"
        ):
            assert settings(**{option.key: option.default}) == settings(), option.key


def test_defaults_of_restart_strategies() -> None:
    for kind in ("fixed-delay", "failure-rate", "exponential-delay"):
        plain = Configuration().set_string("restart-strategy.type", kind)
        told = Configuration().set_string("restart-strategy.type", kind)
        for option in OPTIONS:
            if option.key.startswith(f"restart-strategy.{kind}") and option.default is not None:
                told.set_string(option.key, option.default)
        assert repr(job_settings(told, False).restart) == repr(job_settings(plain, False).restart)


def choices() -> list[Option]:
    """Options whose values are listed, and that are checked when a job starts."""
    return [
        option
        for option in OPTIONS
        if "|" in option.takes and option.key not in ("beadline.engine", "beadline.rest.token")
    ]


@pytest.mark.parametrize("option", choices(), ids=lambda option: option.key)
def test_a_value_that_is_not_listed_is_refused_with_those_that_are(option: Option) -> None:
    configuration = Configuration().set_string("state.backend.type", "rocksdb")
    configuration.set_string("execution.checkpointing.interval", "1 s").set_string(option.key, "bogus")

    def read() -> None:
        runtime_mode(configuration)
        for key in (
            "pipeline.operator-chaining.enabled",
            "pipeline.auto-generate-uids",
            "beadline.types.lenient",
            "beadline.types.strict",
        ):
            configuration.get_boolean(key, True)  # as the environment does
        job_settings(configuration, batch=False)

    with pytest.raises(BeadlineError) as caught:
        read()
    message = str(caught.value)
    assert option.key in message
    assert "bogus" in message.lower()
    for value in option.takes.split(" | "):
        assert value.lower() in message.lower()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("execution.checkpointing.Interval", "execution.checkpointing.interval"),
        ("state.checkpoint.dir", "state.checkpoints.dir"),
        ("restart_strategy.fixed_delay.attempts", "restart-strategy.fixed-delay.attempts"),
        ("paralelism.default", "parallelism.default"),
        ("beadline.poison.actions", "beadline.poison.action"),
    ],
)
def test_what_somebody_may_have_meant(wrong: str, right: str) -> None:
    assert meant(wrong) == right


@pytest.mark.parametrize("key", ["taskmanager.numberOfTaskSlots", "jobmanager.memory.process.size", "my.own.key", ""])
def test_keys_that_are_like_no_other(key: str) -> None:
    assert meant(key) is None


def test_idle_options_are_told_with_what_may_have_been_meant() -> None:
    configuration = Configuration().set_string("execution.checkpointing.intervall", "1 s")
    configuration.set_string("taskmanager.numberOfTaskSlots", "4")
    assert options.without_effect(configuration) == [
        (
            "no effect in this version of Beadline: execution.checkpointing.intervall (did you mean "
            "execution.checkpointing.interval?), taskmanager.numberOfTaskSlots"
        )
    ]


def test_options_by_their_older_names_have_their_effect() -> None:
    configuration = Configuration()
    for key, value in (
        ("state.backend", "filesystem"),
        ("state.checkpoints.dir", "/data/checkpoints"),
        ("state.savepoints.dir", "/data/savepoints"),
        ("state.checkpoints.num-retained", "20"),
        ("restart-strategy", "fixed-delay"),
    ):
        configuration.set_string(key, value)
    assert options.without_effect(configuration) == []
    checkpoints = job_settings(configuration, batch=False).checkpoints
    assert (checkpoints.directory, checkpoints.savepoint_directory) == ("/data/checkpoints", "/data/savepoints")
    assert checkpoints.retained == 20


def test_an_unknown_option_of_beadline_is_refused() -> None:
    configuration = Configuration().set_string("beadline.engin", "local")
    with pytest.raises(ConfigurationError, match=r"unknown options: beadline.engin \(did you mean beadline.engine\?\)"):
        options.without_effect(configuration)
