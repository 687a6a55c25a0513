"""Errors as objects of Java's serialization, byte by byte; that Flink's clients read them, test_flink_clients shows."""

from __future__ import annotations

import base64

from beadline.web.java_errors import failure_cause


def serialized(message: str, trace: str = "trace") -> bytes:
    return base64.b64decode(failure_cause("SomeError", message, trace)["serialized-throwable"])


def test_the_fields_come_in_the_order_of_the_classes() -> None:
    """Those of Throwable first: no cause, the message, no stack, nothing suppressed; then Flink's own three."""
    assert serialized("it failed").endswith(
        b"p" + b"t\x00\x09it failed" + b"pp" + b"x" + b"t\x00\x05trace" + b"t\x00\x09SomeError" + b"p"
    )


def test_texts_are_in_java_s_own_utf_8() -> None:
    assert b"t\x00\x04a\xc0\x80b" in serialized("a\0b")
    assert b"t\x00\x06\xed\xa0\xbd\xed\xb8\x80" in serialized("\U0001f600")


def test_a_long_text_has_a_longer_length() -> None:
    assert b"|\x00\x00\x00\x00\x00\x01\x11\x70" + b"x" * 70000 in serialized("m", "x" * 70000)
