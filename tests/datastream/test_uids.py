"""A program that must name its operators can name all of them."""

from __future__ import annotations

import pytest

from beadline.common import WatermarkStrategy
from beadline.connectors.collections import SequenceSource
from beadline.datastream import StreamExecutionEnvironment
from beadline.errors import GraphError


def refusing() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.get_config().disable_auto_generated_uids()
    return env


def test_a_job_refuses_generated_uids_before_it_starts() -> None:
    env = refusing()
    env.from_collection([1]).uid("numbers").key_by(lambda v: v).reduce(max).name("highest").print()
    with pytest.raises(GraphError, match=r"these operators have no uid: 'highest', 'Print to Std\. Out'"):
        env.execute()


def test_a_source_and_its_watermarks_have_one_uid_to_be_set() -> None:
    env = refusing()
    source = env.from_source(SequenceSource(1, 3), WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    source.uid("numbers").print().uid("out")
    assert [node.uid for node in env._plan(None).nodes.values()] == ["numbers", "numbers-watermarks", "out"]
