from __future__ import annotations

from enum import Enum
from typing import Self, TypeVar

from beadline.api.arguments import as_milliseconds, check_positive
from beadline.common.time import Duration, Time
from beadline.errors import ConfigurationError, TypeMismatchError

E = TypeVar("E", bound=Enum)
S = TypeVar("S")

_DEFAULT_CLEANUP_SIZE = 5
_DEFAULT_COMPACTION_QUERY_ENTRIES = 1000
_DEFAULT_PERIODIC_COMPACTION = Duration.of_days(30)


class StateTtlConfig:
    """When the entries of a state expire, and how they are removed. Made with :meth:`new_builder`.

    ::

        ttl = StateTtlConfig.new_builder(Time.hours(24)).update_ttl_on_read_and_write().build()
        descriptor.enable_time_to_live(ttl)

    Time is processing time. List and map state expire element by element. The configuration itself is not part of a
    checkpoint: a restored job uses the one in its program.
    """

    class UpdateType(Enum):
        """Which accesses restart the lifetime."""

        Disabled = 0
        """Entries never expire."""

        OnCreateAndWrite = 1
        """Only writing does."""

        OnReadAndWrite = 2
        """Reading does as well."""

    class StateVisibility(Enum):
        """Whether an entry that has expired, and is not removed yet, can still be read."""

        ReturnExpiredIfNotCleanedUp = 0
        """It can."""

        NeverReturnExpired = 1
        """It reads as if it were gone."""

    class TtlTimeCharacteristic(Enum):
        """Which clock lifetimes are measured with."""

        ProcessingTime = 0
        """The wall clock, as stamped on the step."""

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: Time | Duration,
        cleanup_strategies: CleanupStrategies,
    ) -> None:
        self._update_type = _member(StateTtlConfig.UpdateType, update_type, "update type")
        self._state_visibility = _member(StateTtlConfig.StateVisibility, state_visibility, "state visibility")
        self._ttl_time_characteristic = _member(
            StateTtlConfig.TtlTimeCharacteristic, ttl_time_characteristic, "time characteristic"
        )
        self._ttl = _as_time(ttl)
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfig.Builder:
        """Starts a configuration in which entries live for ``ttl``, which must be positive."""
        return StateTtlConfig.Builder(ttl)

    @property
    def ttl_ms(self) -> int:
        return self._ttl.to_milliseconds()

    def get_update_type(self) -> UpdateType:
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        return self._state_visibility

    def get_ttl(self) -> Time:
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> CleanupStrategies:
        return self._cleanup_strategies

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateTtlConfig) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.ttl_ms, self._update_type, self._state_visibility, self._ttl_time_characteristic))

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig(ttl={self.ttl_ms} ms, update_type={self._update_type.name}, "
            f"state_visibility={self._state_visibility.name})"
        )

    class Builder:
        """Collects the choices; every method but :meth:`build` returns the builder. By default only writing restarts
        the lifetime, and an expired entry reads as if it were gone."""

        def __init__(self, ttl: Time | Duration) -> None:
            self._ttl = _as_time(ttl)
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[
                StateTtlConfig.CleanupStrategies.Strategies, StateTtlConfig.CleanupStrategies.CleanupStrategy
            ] = {}

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> Self:
            self._update_type = _member(StateTtlConfig.UpdateType, update_type, "update type")
            return self

        def update_ttl_on_create_and_write(self) -> Self:
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> Self:
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> Self:
            self._state_visibility = _member(StateTtlConfig.StateVisibility, state_visibility, "state visibility")
            return self

        def return_expired_if_not_cleaned_up(self) -> Self:
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> Self:
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic) -> Self:
            self._ttl_time_characteristic = _member(
                StateTtlConfig.TtlTimeCharacteristic, ttl_time_characteristic, "time characteristic"
            )
            return self

        def use_processing_time(self) -> Self:
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> Self:
            """Leaves expired entries out of full snapshots, so that a restore starts without them."""
            return self._clean_up("FULL_STATE_SCAN_SNAPSHOT", StateTtlConfig.CleanupStrategies.EMPTY_STRATEGY)

        def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> Self:
            """Looks at ``cleanup_size`` entries for each access, at the end of the step, and drops those that have
            expired. Records that touch no state don't count, whatever ``run_cleanup_for_every_record`` says."""
            kind = StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy
            return self._clean_up("INCREMENTAL_CLEANUP", kind(cleanup_size, run_cleanup_for_every_record))

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
        ) -> Self:
            """Kept for programs that call it; it has no effect. In RocksDB too, a few expired entries are dropped for
            each access, and others when runs of state are merged."""
            kind = StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy
            strategy = kind(query_time_after_num_entries, periodic_compaction_time)
            return self._clean_up("ROCKSDB_COMPACTION_FILTER", strategy)

        def _clean_up(self, name: str, strategy: StateTtlConfig.CleanupStrategies.CleanupStrategy) -> Self:
            self._strategies[StateTtlConfig.CleanupStrategies.Strategies[name]] = strategy
            return self

        def disable_cleanup_in_background(self) -> Self:
            """Drops expired entries only when they are read, or by a strategy that was asked for by name."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: Time | Duration) -> Self:
            self._ttl = _as_time(ttl)
            return self

        def build(self) -> StateTtlConfig:
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                StateTtlConfig.CleanupStrategies(dict(self._strategies), self._is_cleanup_in_background),
            )

    class CleanupStrategies:
        """How expired entries are removed, apart from being removed when they are read."""

        class Strategies(Enum):
            """The strategies that can be asked for."""

            FULL_STATE_SCAN_SNAPSHOT = 0
            INCREMENTAL_CLEANUP = 1
            ROCKSDB_COMPACTION_FILTER = 2

        class CleanupStrategy:
            """Base of the strategies' settings."""

            def __eq__(self, other: object) -> bool:
                return type(other) is type(self) and vars(other) == vars(self)

            def __hash__(self) -> int:
                return hash(type(self))

        class EmptyCleanupStrategy(CleanupStrategy):
            """A strategy that has no settings."""

        class IncrementalCleanupStrategy(CleanupStrategy):
            """Looks at a few entries at every access."""

            def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
                self._cleanup_size = check_positive(cleanup_size, "cleanup_size", "a cleanup strategy")
                self._run_cleanup_for_every_record = bool(run_cleanup_for_every_record)

            def get_cleanup_size(self) -> int:
                return self._cleanup_size

            def run_cleanup_for_every_record(self) -> bool:
                """Whether they are looked at for each record, not only when the state is accessed."""
                return self._run_cleanup_for_every_record

        class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
            """Drops expired entries while RocksDB compacts its files."""

            def __init__(
                self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
            ) -> None:
                self._query_time_after_num_entries = check_positive(
                    query_time_after_num_entries, "query_time_after_num_entries", "a cleanup strategy"
                )
                self._periodic_compaction_time = periodic_compaction_time or _DEFAULT_PERIODIC_COMPACTION

            def get_query_time_after_num_entries(self) -> int:
                """After how many entries the clock is read again."""
                return self._query_time_after_num_entries

            def get_periodic_compaction_time(self) -> Duration:
                """Files older than this are compacted even if nothing else asks for it."""
                return self._periodic_compaction_time

        EMPTY_STRATEGY = EmptyCleanupStrategy()

        def __init__(self, strategies: dict[Strategies, CleanupStrategy], is_cleanup_in_background: bool) -> None:
            self._strategies = strategies
            self._is_cleanup_in_background = is_cleanup_in_background

        def is_cleanup_in_background(self) -> bool:
            """Whether the backend's own strategy runs when none was asked for."""
            return self._is_cleanup_in_background

        def in_full_snapshot(self) -> bool:
            return StateTtlConfig.CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

        def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
            """How the heap backend cleans up: as asked for, else 5 entries per access, ``None`` if not at all."""
            kind = StateTtlConfig.CleanupStrategies
            default = kind.IncrementalCleanupStrategy(_DEFAULT_CLEANUP_SIZE, False)
            return self._chosen(kind.Strategies.INCREMENTAL_CLEANUP, default)

        def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
            """How the RocksDB backend cleans up: as asked for, else its default, ``None`` if not at all."""
            kind = StateTtlConfig.CleanupStrategies
            default = kind.RocksdbCompactFilterCleanupStrategy(_DEFAULT_COMPACTION_QUERY_ENTRIES)
            return self._chosen(kind.Strategies.ROCKSDB_COMPACTION_FILTER, default)

        def _chosen(self, which: Strategies, default: S) -> S | None:
            asked_for = self._strategies.get(which)
            if isinstance(asked_for, type(default)):
                return asked_for
            return default if self._is_cleanup_in_background else None

        def __eq__(self, other: object) -> bool:
            return isinstance(other, StateTtlConfig.CleanupStrategies) and vars(other) == vars(self)

        def __hash__(self) -> int:
            return hash((frozenset(self._strategies), self._is_cleanup_in_background))


def _member(enum: type[E], value: object, what: str) -> E:
    if isinstance(value, enum):
        return value
    names = ", ".join(f"{enum.__name__}.{member.name}" for member in enum)
    raise TypeMismatchError(f"The {what} of a StateTtlConfig must be one of {names}, not {value!r}.")


def _as_time(ttl: Time | Duration) -> Time:
    milliseconds = as_milliseconds(ttl, "time to live")
    if milliseconds <= 0:
        raise ConfigurationError(
            f"The time to live must be positive, not {milliseconds} ms. "
            f"To keep state for ever, don't enable time to live."
        )
    return Time.milliseconds(milliseconds)
