"""The registry gives out a file when its last holder lets go, and only files of its own."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from beadline.checkpoint.storage.storage import SharedFiles
from tests.checkpoint.snapshots import make_snapshot

OWN = [f"/job/shared/1/{name}.run" for name in "abcde"]
FOREIGN = ["/savepoint/a.run", "/job2/shared/a.run", "/job/shared/../../etc/a.run", "/job/sharedother/a.run"]


def test_a_file_shared_by_two_checkpoints_goes_with_the_second() -> None:
    registry = SharedFiles(["/job/shared"])
    registry.register(1, ["/job/shared/a", "/job/shared/b"])
    registry.register(2, ["/job/shared/b", "/job/shared/c"])
    assert registry.release(1) == {"/job/shared/a"}
    assert registry.release(2) == {"/job/shared/b", "/job/shared/c"}
    assert registry.release(2) == frozenset()
    assert registry.files() == frozenset()


def test_registering_again_replaces() -> None:
    registry = SharedFiles(["/job/shared"])
    registry.register(1, ["/job/shared/a", "/job/shared/b"])
    assert registry.register(1, ["/job/shared/b"]) == {"/job/shared/a"}
    assert registry.release(1) == {"/job/shared/b"}


def test_files_of_savepoints_and_other_jobs_are_never_given_out() -> None:
    registry = SharedFiles(["file:///job/shared/"])
    registry.register(1, [*FOREIGN, "/job/shared/own"])
    assert registry.release(1) == {"/job/shared/own"}


def test_claimed_files_are_owned_and_nothing_beside_them() -> None:
    registry = SharedFiles(["/job/shared"])
    registry.claim(["/savepoint/a.run", "/savepoint/../b.run"])
    registry.register(1, [*FOREIGN, "/savepoint/c.run", "/savepoint/../b.run"])
    assert registry.release(1) == {"/savepoint/a.run"}


def test_object_stores() -> None:
    registry = SharedFiles(["s3://b/job/shared?endpoint_override=h"])
    registry.register(1, ["s3://b/job/shared/1/a.run?endpoint_override=h", "s3://other/a.run"])
    assert registry.release(1) == {"s3://b/job/shared/1/a.run?endpoint_override=h"}


def test_only_what_no_other_checkpoint_needs_is_freed(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    retained = [make_snapshot(number, shared) for number in (4, 5, 6)]
    registry = SharedFiles([shared])
    for snapshot in retained:
        registry.register(snapshot.checkpoint_id, snapshot.files())
    assert registry.files() == frozenset().union(*(snapshot.files() for snapshot in retained))
    freed = registry.release(4)
    assert freed == retained[0].files() - retained[1].files() - retained[2].files()
    assert len(freed) == 2


class RegistryMachine(RuleBasedStateMachine):
    """Against a model that keeps the sets themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = SharedFiles(["/job/shared"])
        self.model: dict[object, frozenset[str]] = {}
        self.deleted: list[str] = []

    holders = st.sampled_from([1, 2, 3, 4])
    paths = st.frozensets(st.sampled_from(OWN + FOREIGN))

    def _held(self) -> frozenset[str]:
        return frozenset().union(*self.model.values()) if self.model else frozenset()

    @rule(holder=holders, files=paths)
    def register(self, holder: object, files: frozenset[str]) -> None:
        before = self._held()
        self.model[holder] = files
        assert self.registry.register(holder, files) == (before - self._held()) & frozenset(OWN)

    @rule(holder=holders)
    def release(self, holder: object) -> None:
        before = self._held()
        self.model.pop(holder, None)
        assert self.registry.release(holder) == (before - self._held()) & frozenset(OWN)

    @rule()
    def rebuild(self) -> None:
        rebuilt = SharedFiles(["/job/shared"])
        for holder, files in self.model.items():
            rebuilt.register(holder, files)
        self.registry = rebuilt

    @invariant()
    def knows_what_is_held(self) -> None:
        assert self.registry.files() == self._held()


RegistryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestRegistry = RegistryMachine.TestCase
