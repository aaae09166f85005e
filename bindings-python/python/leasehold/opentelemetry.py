"""Hands what a client has counted and timed to OpenTelemetry, whenever its reader asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation

from leasehold._metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter

    from leasehold._base import ClientBase
    from leasehold._metrics import Family, Sample

__all__ = ["observe"]


def observe(client: ClientBase, meter: Meter, attributes: Mapping[str, str] | None = None) -> None:
    """Registers instruments for all that `client` measures.

    OpenTelemetry has no histogram that is only observed: what is timed becomes two counters, of how often (`…_count`) and of
    how many seconds in all (`…_sum`).

    Args:
        client: Of threads or of event loops.
        meter: Such as `opentelemetry.metrics.get_meter("leasehold")`.
        attributes: Are added to all of it, to tell several clients of one program apart.
    """
    more = dict(attributes or {})
    for index, family in enumerate(client.metrics().families):
        unit = "s" if family.unit == "seconds" else family.unit or "1"
        if family.kind == "gauge":
            meter.create_observable_gauge(family.name, [_reading(client, index, more, _number)], unit, family.help)
        elif family.kind == "counter":
            meter.create_observable_counter(family.name, [_reading(client, index, more, _number)], unit, family.help)
        else:
            count, total = _reading(client, index, more, _count), _reading(client, index, more, _sum)
            meter.create_observable_counter(f"{family.name}_count", [count], "1", family.help)
            meter.create_observable_counter(f"{family.name}_sum", [total], unit, family.help)


def _reading(
    client: ClientBase, index: int, more: dict[str, str], read: Callable[[Sample], float]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observations(_: CallbackOptions) -> list[Observation]:
        family: Family = client.metrics().families[index]
        return [Observation(read(sample), {**more, **sample.labels}) for sample in family.samples]

    return observations


def _number(sample: Sample) -> float:
    return 0 if isinstance(sample.value, Histogram) else sample.value


def _count(sample: Sample) -> float:
    return sample.value.count if isinstance(sample.value, Histogram) else sample.value


def _sum(sample: Sample) -> float:
    return sample.value.sum if isinstance(sample.value, Histogram) else sample.value
