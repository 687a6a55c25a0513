"""A web site that writes its clicks to Kafka."""

from __future__ import annotations

import threading
import time
from typing import Any, Self

from beadline.cli.playground.clicks import PARTS, made_by, page_of, part_of, time_of

_PAUSE = 0.05


class ClickSite:
    """Writes clicks to the topic ``clicks`` at a steady pace while it is open, whether somebody reads them or not."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._write, name="click-site", daemon=True)

    def __enter__(self) -> Self:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": self._address})
        topics = [NewTopic("clicks", PARTS, 1), NewTopic("counts", 1, 1)]
        for made in admin.create_topics(topics).values():
            made.result()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _write(self) -> None:
        from confluent_kafka import Producer

        # One that is sent twice would be counted twice, and it would not be the job's fault.
        producer: Any = Producer(
            {"bootstrap.servers": self._address, "enable.idempotence": True, "linger.ms": 20, "log_level": 2}
        )
        started, next_click = time.monotonic(), 0
        while not self._closed.wait(_PAUSE):
            there = made_by((time.monotonic() - started) * 1000)
            for click in range(next_click, there):
                line = f"{page_of(click)},{time_of(click)}"
                producer.produce("clicks", line, key=page_of(click), partition=part_of(click))
                if click % 1000 == 0:
                    producer.poll(0)
            next_click = there
            producer.poll(0)
        producer.flush(10)
