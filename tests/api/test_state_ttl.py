"""The configuration of time to live."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from beadline.common.time import Duration, Time
from beadline.datastream.state import StateTtlConfig
from beadline.errors import ConfigurationError, TypeMismatchError

Update = StateTtlConfig.UpdateType
Visibility = StateTtlConfig.StateVisibility
Clock = StateTtlConfig.TtlTimeCharacteristic


def test_the_defaults() -> None:
    config = StateTtlConfig.new_builder(Time.minutes(2)).build()
    assert config.is_enabled()
    assert config.ttl_ms == 120_000
    assert config.get_ttl() == Time.minutes(2)
    assert config.get_update_type() is config.get_update_type() is Update.OnCreateAndWrite
    assert config.get_state_visibility() is config.get_state_visibility() is Visibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is Clock.ProcessingTime
    cleanup = config.get_cleanup_strategies()
    assert cleanup is config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()


def test_background_cleanup_has_a_default_for_each_backend() -> None:
    cleanup = StateTtlConfig.new_builder(Time.seconds(1)).build().get_cleanup_strategies()
    heap = cleanup.get_incremental_cleanup_strategy()
    assert heap is not None
    assert (heap.get_cleanup_size(), heap.run_cleanup_for_every_record()) == (5, False)
    rocksdb = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb is not None
    assert rocksdb.get_query_time_after_num_entries() == 1000
    assert rocksdb.get_periodic_compaction_time() == Duration.of_days(30)


def test_background_cleanup_can_be_switched_off() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background()
    cleanup = builder.build().get_cleanup_strategies()
    assert not cleanup.is_cleanup_in_background()
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None


def test_what_was_asked_for_by_name_stays_on() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background()
    builder.cleanup_incrementally(10, True).cleanup_in_rocksdb_compact_filter(7, Duration.of_days(1))
    cleanup = builder.cleanup_full_snapshot().build().get_cleanup_strategies()
    heap = cleanup.get_incremental_cleanup_strategy()
    rocksdb = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert heap is not None
    assert rocksdb is not None
    assert (heap.get_cleanup_size(), heap.run_cleanup_for_every_record()) == (10, True)
    assert rocksdb.get_query_time_after_num_entries() == 7
    assert rocksdb.get_periodic_compaction_time() == Duration.of_days(1)
    assert cleanup.in_full_snapshot()


def test_a_builder_that_goes_on_does_not_change_what_it_built() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    first = builder.build()
    second = builder.set_ttl(Time.seconds(2)).update_ttl_on_read_and_write().cleanup_full_snapshot().build()
    assert (first.ttl_ms, first.get_update_type()) == (1000, Update.OnCreateAndWrite)
    assert not first.get_cleanup_strategies().in_full_snapshot()
    assert (second.ttl_ms, second.get_update_type()) == (2000, Update.OnReadAndWrite)
    assert first != second


def test_every_choice_has_its_shorthand() -> None:
    builder = StateTtlConfig.new_builder(Duration.of_seconds(3))
    assert builder.build().ttl_ms == 3000
    assert builder.update_ttl_on_read_and_write().build().get_update_type() is Update.OnReadAndWrite
    assert builder.update_ttl_on_create_and_write().build().get_update_type() is Update.OnCreateAndWrite
    visible = builder.return_expired_if_not_cleaned_up().build()
    assert visible.get_state_visibility() is Visibility.ReturnExpiredIfNotCleanedUp
    assert builder.never_return_expired().build().get_state_visibility() is Visibility.NeverReturnExpired
    assert builder.use_processing_time().build().get_ttl_time_characteristic() is Clock.ProcessingTime
    assert not builder.set_update_type(Update.Disabled).build().is_enabled()


def test_it_travels_to_the_workers() -> None:
    builder = StateTtlConfig.new_builder(Time.hours(1)).cleanup_incrementally(3, True).cleanup_full_snapshot()
    config = builder.cleanup_in_rocksdb_compact_filter(9).disable_cleanup_in_background().build()
    arrived = pickle.loads(pickle.dumps(config))
    assert arrived == config
    assert hash(arrived) == hash(config)
    assert arrived.get_cleanup_strategies().get_incremental_cleanup_strategy().get_cleanup_size() == 3
    other_size = StateTtlConfig.new_builder(Time.hours(1)).cleanup_incrementally(4, True)
    assert arrived != other_size.build()


@pytest.mark.parametrize("ttl", [Time.milliseconds(0), Time.seconds(-1), Duration.of_millis(0)])
def test_a_lifetime_is_positive(ttl: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be positive"):
        StateTtlConfig.new_builder(ttl)
    with pytest.raises(ConfigurationError, match="must be positive"):
        StateTtlConfig.new_builder(Time.seconds(1)).set_ttl(ttl)


@pytest.mark.parametrize(("ttl", "hint"), [(5000, r"Time\.milliseconds\(5000\)"), ("1 h", "str"), (None, "NoneType")])
def test_a_lifetime_is_a_time(ttl: Any, hint: str) -> None:
    with pytest.raises(TypeMismatchError, match=hint):
        StateTtlConfig.new_builder(ttl)


@pytest.mark.parametrize("size", [0, -5, True, "5"])
def test_cleanup_sizes_are_positive(size: Any) -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    with pytest.raises(ConfigurationError, match="cleanup_size"):
        builder.cleanup_incrementally(size, False)
    with pytest.raises(ConfigurationError, match="query_time_after_num_entries"):
        builder.cleanup_in_rocksdb_compact_filter(size)


def test_choices_must_be_of_the_right_enum() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    with pytest.raises(TypeMismatchError, match=r"update type.*UpdateType\.OnReadAndWrite"):
        builder.set_update_type(Visibility.NeverReturnExpired)  # type: ignore[arg-type]
