"""Keys that a dictionary would lose."""

from __future__ import annotations

import pickle

from beadline.common import Row
from beadline.state.key_groups import KeyRouter, encode_key


def test_a_nan_is_one_key() -> None:
    router = KeyRouter(4, 128)
    first, subtask = router.route(float("nan"))
    again, same = router.route(pickle.loads(pickle.dumps(float("nan"))))
    assert {first: "found"}[again] == "found"
    assert subtask == same
    nested, _ = router.route(("k", float("nan")))
    assert {nested: 1}[pickle.loads(pickle.dumps(nested))] == 1


def test_a_nan_of_any_sign_is_the_same_key() -> None:
    nan, infinity = float("nan"), float("inf")
    assert {encode_key(value) for value in (nan, -nan, infinity - infinity, infinity * 0)} == {encode_key(nan)}
    assert encode_key(("k", -nan)) == encode_key(("k", nan))


def test_numbers_of_any_length() -> None:
    assert encode_key(10**5000) != encode_key(10**5000 + 1)
    assert encode_key(10**20) == encode_key(1e20)


def test_a_key_does_not_change_with_the_record_it_was() -> None:
    record = Row("a", 1)
    key, _ = KeyRouter(1, 128).route(record)
    record[1] = 2
    assert key == Row("a", 1)
