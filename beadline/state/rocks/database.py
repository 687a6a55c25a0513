"""Opening RocksDB within its limits."""

from __future__ import annotations

import resource
from functools import lru_cache
from typing import Any

from beadline.state.backend_settings import RocksSettings, require_rocksdict

_LARGEST_ARENA = 1 << 20
_MOST_DATABASES = 64


@lru_cache(maxsize=4)
def _shared_memory(memory: int, write_ratio: float) -> tuple[Any, Any]:
    """One cache for all databases of this process; write buffers are charged to it."""
    import rocksdict

    cache = rocksdict.Cache(memory)
    buffers = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(int(memory * write_ratio), False, cache)
    return cache, buffers


def make_options(settings: RocksSettings) -> Any:
    require_rocksdict()
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    blocks = rocksdict.BlockBasedOptions()
    options.create_if_missing(True)
    write_buffer = settings.write_buffer
    if settings.memory is None:
        blocks.set_block_cache(rocksdict.Cache(settings.block_cache))
    else:
        cache, buffers = _shared_memory(settings.memory, settings.write_ratio)
        blocks.set_block_cache(cache)
        options.set_write_buffer_manager(buffers)
        # Two of them must fit, or the second would push out all that is cached.
        write_buffer = min(write_buffer, int(settings.memory * settings.write_ratio) // 2)
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_block_size(settings.block_size)
    blocks.set_format_version(5)
    if settings.bloom_bits:
        blocks.set_bloom_filter(settings.bloom_bits, False)
    options.set_block_based_table_factory(blocks)
    options.set_write_buffer_size(write_buffer)
    options.set_arena_block_size(min(_LARGEST_ARENA, write_buffer // 8))
    options.set_max_write_buffer_number(settings.write_buffers)
    options.set_min_write_buffer_number_to_merge(settings.write_buffers_to_merge)
    options.set_max_background_jobs(settings.threads)
    options.set_max_open_files(settings.open_files if settings.open_files >= 0 else _most_open_files())
    options.set_max_bytes_for_level_base(settings.level_base)
    options.set_target_file_size_base(settings.target_file)
    options.set_level_compaction_dynamic_level_bytes(settings.dynamic_levels)
    if settings.style == "universal":
        options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
    elif settings.style == "none":
        options.set_disable_auto_compactions(True)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    # Nobody needs a log in a folder that lives only as long as the job.
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def _most_open_files() -> int:
    """A good part of what the process may open; the user's code and other databases open files too."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return -1 if allowed == resource.RLIM_INFINITY else max(64, allowed // 4)


def most_open() -> int:
    """How many databases a worker may have open at a time: each needs a dozen files or two."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_DATABASES if allowed == resource.RLIM_INFINITY else max(2, min(_MOST_DATABASES, allowed // 64))


def unlogged() -> Any:
    """Write options without a log: what a crash takes is read again from the segments."""
    import rocksdict

    options = rocksdict.WriteOptions()
    setattr(options, "disable_wal", True)  # noqa: B010 - a property, whatever its stub says
    return options
