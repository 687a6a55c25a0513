"""Groups of operators that share resources, and sizes of memory."""

from __future__ import annotations

from dataclasses import dataclass

from beadline.errors import ConfigurationError, TypeMismatchError

__all__ = ["MemorySize", "SlotSharingGroup"]

_KIBI = 1024
_UNITS = ("bytes", "kb", "mb", "gb", "tb")


@dataclass(frozen=True, order=True, repr=False)
class MemorySize:
    """A number of bytes: ``MemorySize(bytes_size=4096)``, ``MemorySize.of_mebi_bytes(64)``. Larger units, of 1024
    smaller ones each, are rounded down."""

    bytes_size: int

    def __post_init__(self) -> None:
        size = self.bytes_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigurationError(f"A memory size must be a whole number of at least 0 bytes, not {size!r}.")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        return MemorySize(mebi_bytes * _KIBI**2)

    def get_bytes(self) -> int:
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        return self.bytes_size // _KIBI

    def get_mebi_bytes(self) -> int:
        return self.bytes_size // _KIBI**2

    def get_gibi_bytes(self) -> int:
        return self.bytes_size // _KIBI**3

    def get_tebi_bytes(self) -> int:
        return self.bytes_size // _KIBI**4

    def __str__(self) -> str:
        number, power = self.bytes_size, 0
        while number and number % _KIBI == 0 and power < len(_UNITS) - 1:
            number, power = number // _KIBI, power + 1
        return f"{number} {_UNITS[power]}"

    def __repr__(self) -> str:
        return f"MemorySize({self})"


class SlotSharingGroup:
    """A name for operators that run together, and the resources they need, None for those that it does not name.
    Made with :meth:`builder`.

    ::

        SlotSharingGroup.builder("heavy").set_cpu_cores(1.0).set_task_heap_memory_mb(512).build()
    """

    def __init__(
        self,
        name: str,
        cpu_cores: float | None = None,
        task_heap_memory: MemorySize | None = None,
        task_off_heap_memory: MemorySize | None = None,
        managed_memory: MemorySize | None = None,
        external_resources: dict[str, float] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"A slot sharing group needs a name that is a str and not empty, not {name!r}.")
        self._name = name
        self._cpu_cores = cpu_cores
        self._task_heap_memory = task_heap_memory
        self._task_off_heap_memory = task_off_heap_memory
        self._managed_memory = managed_memory
        self._external_resources = dict(external_resources or {})

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        return SlotSharingGroup.Builder(name)

    def get_name(self) -> str:
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        return dict(self._external_resources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSharingGroup) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._name, self._cpu_cores, self._task_heap_memory))

    def __repr__(self) -> str:
        if self._cpu_cores is None:
            return f"SlotSharingGroup({self._name!r})"
        return f"SlotSharingGroup({self._name!r}, cpu_cores={self._cpu_cores}, heap={self._task_heap_memory})"

    class Builder:
        """Collects what the group needs; every method but :meth:`build` returns the builder. Names that end in ``_mb``
        take mebibytes."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._memory: dict[str, MemorySize] = {}
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """CPU cores, more than 0."""
            self._cpu_cores = _positive_number(cpu_cores, "The number of CPU cores")
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Memory for functions and heap state, more than 0."""
            if _memory(task_heap_memory).get_bytes() == 0:
                raise ConfigurationError("The task heap memory of a slot sharing group must be more than 0 bytes.")
            self._memory["task_heap_memory"] = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Memory outside the heap."""
            self._memory["task_off_heap_memory"] = _memory(task_off_heap_memory)
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Memory for state backends."""
            self._memory["managed_memory"] = _memory(managed_memory)
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Another resource, such as GPUs; a second value for a name replaces the first."""
            self._external_resources[name] = _positive_number(value, f"External resource {name!r}")
            return self

        def build(self) -> SlotSharingGroup:
            """The finished group. A group that names any resource must name CPU cores and heap memory."""
            heap = self._memory.get("task_heap_memory")
            if self._cpu_cores is None and not self._memory and not self._external_resources:
                return SlotSharingGroup(self._name)
            if self._cpu_cores is None or heap is None:
                missing = "CPU cores" if self._cpu_cores is None else "task heap memory"
                raise ConfigurationError(
                    f"Slot sharing group {self._name!r} names resources, but no {missing}. "
                    f"Call set_cpu_cores and set_task_heap_memory, or name no resources at all."
                )
            return SlotSharingGroup(
                self._name,
                self._cpu_cores,
                heap,
                self._memory.get("task_off_heap_memory", MemorySize(0)),
                self._memory.get("managed_memory", MemorySize(0)),
                self._external_resources,
            )


def _memory(value: object) -> MemorySize:
    if isinstance(value, MemorySize):
        return value
    raise TypeMismatchError(
        f"Memory of a slot sharing group must be a MemorySize, not {type(value).__name__}: {value!r}. "
        f"Write for example MemorySize.of_mebi_bytes(64)."
    )


def _positive_number(value: float, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise ConfigurationError(f"{what} must be a number of more than 0, not {value!r}.")
    return float(value)
