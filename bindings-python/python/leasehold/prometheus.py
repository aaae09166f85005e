"""Hands what clients have counted and timed to `prometheus_client`.

>>> import leasehold
>>> from prometheus_client import CollectorRegistry
>>> registry = CollectorRegistry()
>>> client = leasehold.Client("memory://")
>>> registry.register(Collector(client))
>>> registry.get_sample_value("leasehold_held")
0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector as _Collector

from leasehold._metrics import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leasehold._base import ClientBase
    from leasehold._metrics import Family

__all__ = ["Collector"]


class Collector(_Collector):
    """Collects from one client, whenever it is asked: `registry.register(Collector(client))`."""

    def __init__(self, client: ClientBase, labels: Mapping[str, str] | None = None) -> None:
        """`labels` are added to all that it collects, to tell several clients of one program apart."""
        self._client = client
        self._labels = dict(labels or {})

    def collect(self) -> Iterator[Metric]:
        """What there is now."""
        for family in self._client.metrics().families:
            yield self._metric(family)

    def _metric(self, family: Family) -> Metric:
        # The name has its unit already, and the kinds of values differ in how they are added: so by hand.
        metric = Metric(family.name, family.help, family.kind)
        for sample in family.samples:
            labels = {**self._labels, **sample.labels}
            if isinstance(sample.value, Histogram):
                for bound, count in sample.value.buckets:
                    le = "+Inf" if bound == math.inf else repr(bound)
                    metric.add_sample(f"{family.name}_bucket", {**labels, "le": le}, count)
                metric.add_sample(f"{family.name}_count", labels, sample.value.count)
                metric.add_sample(f"{family.name}_sum", labels, sample.value.sum)
            else:
                suffix = "_total" if family.kind == "counter" else ""
                metric.add_sample(f"{family.name}{suffix}", labels, sample.value)
        return metric
