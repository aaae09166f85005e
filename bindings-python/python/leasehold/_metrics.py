"""What a client has counted and timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from leasehold import _shapes


@dataclass(frozen=True)
class Histogram:
    """How long something took, or how long it had."""

    buckets: tuple[tuple[float, int], ...]
    """For each upper bound, in seconds, how many were at most so long. The last bound is infinite."""
    sum: float
    """All of them together, in seconds."""

    @property
    def count(self) -> int:
        """How many there were."""
        return self.buckets[-1][1] if self.buckets else 0


@dataclass(frozen=True)
class Sample:
    """One value of a `Family`."""

    labels: dict[str, str]
    """What it is about."""
    value: int | Histogram
    """How much, or how often."""


@dataclass(frozen=True)
class Family:
    """One thing that is measured."""

    name: str
    """`leasehold_…`, without the suffix that the text format gives to counters."""
    help: str
    """One sentence for people."""
    unit: str | None
    """Where it has one; the name ends with it."""
    kind: Literal["counter", "gauge", "histogram"]
    """What its values are."""
    samples: tuple[Sample, ...]
    """One for each combination of labels that occurred."""


@dataclass(frozen=True)
class Metrics:
    """What a client has counted and timed; as a text (`str`), the OpenMetrics format."""

    families: tuple[Family, ...]
    """One for each thing that is measured, always in the same order."""
    text: str
    """The same in the text format of OpenMetrics 1.0."""

    @classmethod
    def of(cls, families: list[_shapes.Family], text: str) -> Metrics:
        """From what the native module says."""
        return cls(tuple(_family(*family) for family in families), text)

    def __str__(self) -> str:
        """The text."""
        return self.text


def _family(
    name: str,
    help: str,  # noqa: A002 - as the format has it
    unit: str | None,
    kind: str,
    samples: list[tuple[list[tuple[str, str]], _shapes.Value]],
) -> Family:
    made = tuple(Sample(dict(labels), _value(value)) for labels, value in samples)
    return Family(name, help, unit, cast("Literal['counter', 'gauge', 'histogram']", kind), made)


def _value(value: _shapes.Value) -> int | Histogram:
    return value if isinstance(value, int) else Histogram(tuple(value[0]), value[1])
