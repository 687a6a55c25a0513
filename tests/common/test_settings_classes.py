"""Execution settings, restart strategies and watermark strategies."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

from beadline.common import (
    AssignerWithPeriodicWatermarksWrapper,
    Configuration,
    Duration,
    ExecutionConfig,
    Instant,
    RestartStrategies,
    RestartStrategyConfiguration,
    Time,
    WatermarkStrategy,
)
from beadline.common.watermark_strategy import TimestampAssigner
from beadline.errors import ConfigurationError, UnsupportedFeatureError


class TestExecutionConfig:
    def test_the_defaults_are_pyflinks(self) -> None:
        config = ExecutionConfig()
        assert config.is_closure_cleaner_enabled() is True
        assert config.get_auto_watermark_interval() == 200
        assert config.get_latency_tracking_interval() == 0
        assert config.get_parallelism() == ExecutionConfig.PARALLELISM_DEFAULT
        assert config.get_max_parallelism() == -1
        assert config.get_task_cancellation_interval() == 30_000
        assert config.get_task_cancellation_timeout() == 180_000
        assert config.has_auto_generated_uids_enabled() is True
        assert config.is_object_reuse_enabled() is False
        assert config.get_global_job_parameters() == {}
        assert config.is_use_snapshot_compression() is False

    def test_what_is_set_is_in_the_configuration(self) -> None:
        configuration = Configuration()
        (
            ExecutionConfig(configuration)
            .set_parallelism(4)
            .set_max_parallelism(64)
            .set_auto_watermark_interval(50)
            .set_latency_tracking_interval(-1)
            .set_task_cancellation_interval(1)
            .set_task_cancellation_timeout(0)
            .disable_auto_generated_uids()
            .enable_object_reuse()
            .disable_closure_cleaner()
            .set_use_snapshot_compression(True)
            .set_global_job_parameters({"a": 1, "b": "x,y:z"})
        )
        assert configuration.get_integer("parallelism.default", 0) == 4
        assert configuration.get_duration_ms("pipeline.auto-watermark-interval", 0) == 50
        again = ExecutionConfig(Configuration.from_dict(configuration.to_dict()))
        assert again.get_parallelism() == 4
        assert again.get_max_parallelism() == 64
        assert again.get_auto_watermark_interval() == 50
        assert again.get_latency_tracking_interval() == 0
        assert again.get_task_cancellation_interval() == 1
        assert again.get_task_cancellation_timeout() == 0
        assert again.has_auto_generated_uids_enabled() is False
        assert again.is_object_reuse_enabled() is True
        assert again.is_closure_cleaner_enabled() is False
        assert again.is_use_snapshot_compression() is True
        assert again.get_global_job_parameters() == {"a": "1", "b": "x,y:z"}

    def test_switches_go_both_ways(self) -> None:
        config = ExecutionConfig().disable_auto_generated_uids().enable_object_reuse().disable_closure_cleaner()
        config.enable_auto_generated_uids().disable_object_reuse().enable_closure_cleaner()
        assert config.has_auto_generated_uids_enabled() is True
        assert config.is_object_reuse_enabled() is False
        assert config.is_closure_cleaner_enabled() is True

    def test_parallelism_can_be_left_to_the_environment_again(self) -> None:
        config = ExecutionConfig().set_parallelism(4).set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN)
        assert config.get_parallelism() == 4
        assert config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).get_parallelism() == -1

    @pytest.mark.parametrize(
        ("method", "value"),
        [
            ("set_parallelism", 0),
            ("set_parallelism", -3),
            ("set_max_parallelism", 0),
            ("set_max_parallelism", 32769),
            ("set_auto_watermark_interval", -1),
            ("set_task_cancellation_interval", -1),
            ("set_task_cancellation_timeout", -1),
        ],
    )
    def test_a_value_that_cannot_work_is_refused(self, method: str, value: int) -> None:
        with pytest.raises(ConfigurationError, match=str(value)):
            getattr(ExecutionConfig(), method)(value)

    @pytest.mark.parametrize(
        "method",
        [
            "enable_force_kryo",
            "disable_force_kryo",
            "is_force_kryo_enabled",
            "enable_generic_types",
            "disable_generic_types",
            "has_generic_types_disabled",
            "enable_force_avro",
            "disable_force_avro",
            "is_force_avro_enabled",
            "get_default_kryo_serializer_classes",
            "get_registered_kryo_types",
            "get_registered_pojo_types",
        ],
    )
    def test_what_is_about_java_serializers_is_refused_by_name(self, method: str) -> None:
        with pytest.raises(UnsupportedFeatureError, match=method):
            getattr(ExecutionConfig(), method)()

    def test_equal_settings_are_equal_configs(self) -> None:
        assert ExecutionConfig().set_parallelism(2) == ExecutionConfig().set_parallelism(2)
        assert hash(ExecutionConfig().set_parallelism(2)) == hash(ExecutionConfig().set_parallelism(2))
        assert ExecutionConfig().set_parallelism(2) != ExecutionConfig()


class TestRestartStrategies:
    def test_fixed_delay(self) -> None:
        strategy = RestartStrategies.fixed_delay_restart(3, 1500)
        assert strategy.get_restart_attempts() == 3
        assert strategy.get_delay_between_attempts_interval() == timedelta(seconds=1.5)
        assert strategy == RestartStrategies.fixed_delay_restart(3, timedelta(seconds=1.5))
        assert strategy.get_description() == "Up to 3 restarts, each after 1500 ms."

    def test_failure_rate(self) -> None:
        strategy = RestartStrategies.failure_rate_restart(2, 60_000, timedelta(seconds=1))
        assert strategy.get_max_failure_rate() == 2
        assert strategy.get_failure_interval() == timedelta(minutes=1)
        assert strategy.get_delay_between_attempts_interval() == timedelta(seconds=1)
        assert "at most 2 failures within 60000 ms" in strategy.get_description()

    def test_exponential_delay_has_flinks_defaults(self) -> None:
        strategy = RestartStrategies.exponential_delay_restart()
        assert strategy.initial_backoff == timedelta(seconds=1)
        assert strategy.max_backoff == timedelta(minutes=1)
        assert strategy.backoff_multiplier == 1.5
        assert strategy.reset_backoff_threshold == timedelta(hours=1)
        assert strategy.jitter_factor == 0.1
        assert strategy.attempts_before_reset_backoff is None
        assert strategy.get_description().startswith("Any number of restarts, the first after 1000 ms")

    def test_no_and_fallback(self) -> None:
        strategies: list[RestartStrategyConfiguration] = [
            RestartStrategies.no_restart(),
            RestartStrategies.fall_back_restart(),
            RestartStrategies.fixed_delay_restart(1, 1),
        ]
        assert len(set(strategies)) == 3
        assert strategies == [pickle.loads(pickle.dumps(strategy)) for strategy in strategies]
        assert all(strategy.get_description() for strategy in strategies)

    @pytest.mark.parametrize(
        ("make", "error"),
        [
            (lambda: RestartStrategies.fixed_delay_restart(-1, 1), ConfigurationError),
            (lambda: RestartStrategies.fixed_delay_restart(1, -1), ConfigurationError),
            (lambda: RestartStrategies.fixed_delay_restart(1, "1 s"), TypeError),
            (lambda: RestartStrategies.fixed_delay_restart(True, 1), TypeError),
            (lambda: RestartStrategies.failure_rate_restart(0, 1, 1), ConfigurationError),
            (lambda: RestartStrategies.exponential_delay_restart(0), ConfigurationError),
            (lambda: RestartStrategies.exponential_delay_restart(10, 5), ConfigurationError),
            (lambda: RestartStrategies.exponential_delay_restart(backoff_multiplier=0.5), ConfigurationError),
            (lambda: RestartStrategies.exponential_delay_restart(jitter_factor=2), ConfigurationError),
            (lambda: RestartStrategies.exponential_delay_restart(attempts_before_reset_backoff=0), ConfigurationError),
        ],
    )
    def test_values_that_cannot_work_are_refused(self, make: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            make()


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        timestamp: int = value[0]
        return timestamp


class TestWatermarkStrategy:
    def test_the_three_kinds(self) -> None:
        assert WatermarkStrategy.no_watermarks().kind == "none"
        assert WatermarkStrategy.for_monotonous_timestamps().kind == "monotonous"
        bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
        assert (bounded.kind, bounded.out_of_orderness_ms) == ("bounded", 20_000)
        assert (bounded.timestamp_assigner, bounded.idle_timeout_ms, bounded.alignment) == (None, None, None)

    def test_an_assigner_is_set_in_place_as_in_pyflink(self) -> None:
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        assigner = FirstField()
        assert strategy.with_timestamp_assigner(assigner) is strategy
        assert strategy.timestamp_assigner is assigner

    def test_idleness_and_alignment_make_copies_that_keep_all_else(self) -> None:
        base = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstField())
        idle = base.with_idleness(Duration.of_minutes(1))
        aligned = idle.with_watermark_alignment("g", Duration.of_seconds(2))
        assert base.idle_timeout_ms is None
        assert (idle.idle_timeout_ms, idle.alignment) == (60_000, None)
        assert aligned.idle_timeout_ms == 60_000
        assert aligned.alignment == ("g", 2000, 1000)
        assert aligned.timestamp_assigner is base.timestamp_assigner
        shorter = base.with_watermark_alignment("g", Duration.of_seconds(2), Duration.of_millis(10))
        assert shorter.alignment is not None
        assert shorter.alignment.update_interval_ms == 10

    def test_values_that_cannot_work_are_refused(self) -> None:
        strategy = WatermarkStrategy.no_watermarks()
        with pytest.raises(ConfigurationError, match="can't be negative"):
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))
        with pytest.raises(ConfigurationError, match="more than 0 ms"):
            strategy.with_idleness(Duration.of_millis(0))
        with pytest.raises(ConfigurationError, match="0 ms or more"):
            strategy.with_watermark_alignment("g", Duration.of_millis(-1))
        with pytest.raises(ConfigurationError, match="takes a Duration"):
            strategy.with_idleness(5)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="has it a method extract_timestamp"):
            strategy.with_timestamp_assigner("ts")  # type: ignore[arg-type]

    def test_a_function_is_a_timestamp_assigner(self) -> None:
        for function in (lambda value, timestamp: value + 1, lambda value: value + 1):
            strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(function)
            assert strategy.timestamp_assigner is not None
            assert strategy.timestamp_assigner.extract_timestamp(4, -1) == 5
        with pytest.raises(ConfigurationError, match="lambda value, timestamp: …"):
            WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda: 5)  # type: ignore[arg-type, misc]

    def test_assigners_that_give_no_timestamp_are_named(self) -> None:
        class Yields(TimestampAssigner):
            def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
                yield value

        def yielding(value: Any, record_timestamp: int) -> Any:
            yield value

        strategy = WatermarkStrategy.for_monotonous_timestamps()
        with pytest.raises(ConfigurationError, match=r"Yields\.extract_timestamp yields.*write 'return'"):
            strategy.with_timestamp_assigner(Yields())
        with pytest.raises(ConfigurationError, match=r"yielding yields.*write 'return'"):
            strategy.with_timestamp_assigner(yielding)
        with pytest.raises(ConfigurationError, match=r"Yields is a class: write Yields\(\)"):
            strategy.with_timestamp_assigner(Yields)

    def test_it_travels_and_shows_what_it_is(self) -> None:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_idleness(
            Duration.of_seconds(5)
        )
        assert repr(pickle.loads(pickle.dumps(strategy))) == (
            "WatermarkStrategy(bounded by 1000 ms, idle after 5000 ms)"
        )

    def test_java_assigners_are_refused(self) -> None:
        with pytest.raises(UnsupportedFeatureError, match="AssignerWithPeriodicWatermarksWrapper"):
            AssignerWithPeriodicWatermarksWrapper(None)


class TestTime:
    def test_durations(self) -> None:
        assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440)
        assert Duration.of_seconds(1) == Duration.of_millis(1000) == Duration.of_nanos(10**9)
        assert Duration.of_nanos(1_999_999).to_millis() == 1
        assert len({Duration.of_seconds(1), Duration.of_millis(1000)}) == 1
        assert [repr(Duration.of_seconds(2)), repr(Duration.of_nanos(5))] == ["Duration<2000 ms>", "Duration<5 ns>"]
        with pytest.raises(TypeError, match="whole number"):
            Duration.of_seconds(1.5)  # type: ignore[arg-type]

    def test_times(self) -> None:
        assert Time.days(1) == Time.hours(24) == Time.minutes(1440) == Time.seconds(86400)
        assert Time.seconds(5).to_milliseconds() == 5000
        assert str(Time.milliseconds(5)) == "5 ms"
        assert Time.seconds(1) != Duration.of_seconds(1)

    def test_instants(self) -> None:
        assert Instant.of_epoch_milli(-500) == Instant(-1, 500_000_000)
        assert Instant.of_epoch_milli(-500).to_epoch_milli() == -500
        assert Instant(1, 999_999_999).to_epoch_milli() == 1999
        assert repr(Instant(1, 2)) == "Instant<1, 2>"
        assert len({Instant(1, 2), Instant(1, 2), Instant(2, 1)}) == 2
        assert pickle.loads(pickle.dumps(Instant(1, 2))) == Instant(1, 2)
