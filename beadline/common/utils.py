from __future__ import annotations

from typing import Any

from beadline.errors import UnsupportedFeatureError


class JavaObjectWrapper:
    """Can't be made: no JVM of Flink's is running."""

    def __init__(self, j_object: Any) -> None:
        raise UnsupportedFeatureError(
            f"{type(self).__name__} wraps a Java object, and Beadline runs without Flink's JVM."
        )

    def get_java_object(self) -> Any:
        raise UnsupportedFeatureError(f"{type(self).__name__} has no Java object.")
