"""The packages that connectors need and that come with an extra of Beadline's, which may not be installed."""

from __future__ import annotations

import importlib.util

from beadline.errors import EnvironmentSetupError


def require_client(package: str, extra: str, what: str) -> None:
    """Asked where the program names the connector, before a job is started, and again in the workers.

    :param package: its name in an import
    :param what: the connector, for people
    :raises EnvironmentSetupError: the package is missing
    """
    if importlib.util.find_spec(package) is None:
        name = {"kafka": "kafka-python"}.get(package, package.replace("_", "-"))
        raise EnvironmentSetupError(
            f"{what} needs the package {name}: pip install 'beadline[{extra}]' where the job is "
            "started and on all workers"
        )


def require_kafka() -> None:
    require_client("confluent_kafka", "kafka", "Kafka")
