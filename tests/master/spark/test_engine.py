"""What the engine for Spark says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from beadline.master.spark.engine import SparkEngine

pytestmark = pytest.mark.spark


def test_it_has_the_name_that_spark_and_its_cluster_give_the_application(spark: Any) -> None:
    assert SparkEngine(spark).application == spark.sparkContext.applicationId
