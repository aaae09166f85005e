/**
 * `leasehold/metrics`: what a client has counted, for prom-client and for OpenTelemetry. Both are told by their users; this
 * package needs neither.
 */

import type { MetricFamily, MetricSample, Metrics } from './metrics'

/** What can be measured: a `Client`. */
interface Measurable {
  metrics(): Metrics
}

/** A registry of prom-client, as far as it is needed here. */
interface Registry {
  registerMetric(metric: never): void
  getSingleMetric(name: string): unknown
}

/** A meter of OpenTelemetry, as far as it is needed here. */
interface Meter {
  createObservableCounter(name: string, options: { description: string; unit?: string }): Observable
  createObservableGauge(name: string, options: { description: string; unit?: string }): Observable
}

interface Observable {
  addCallback(callback: (result: { observe(value: number, attributes: Record<string, string>): void }) => void): void
}

/** A value as prom-client has it. */
interface PromValue {
  metricName?: string
  labels: Record<string, string | number>
  value: number
}

type Histogram = Extract<MetricSample, { type: 'histogram' }>

/** What each thing is, where nothing of it was measured yet. */
function typeOf({ name, samples }: MetricFamily): MetricSample['type'] {
  return samples[0]?.type ?? (/_seconds$/.test(name) ? 'histogram' : 'counter')
}

/** As prom-client has it: a counter's name says that it is a total. */
function prometheus(family: MetricFamily): string {
  return typeOf(family) === 'counter' ? `${family.name}_total` : family.name
}

/** The values of prom-client for one of ours. */
function toValues(name: string, sample: MetricSample, more: Record<string, string>): PromValue[] {
  const labels = { ...more, ...sample.labels }
  if (sample.type !== 'histogram') return [{ value: sample.value, labels }]
  return [
    ...sample.buckets.map(({ le, count }) => ({
      metricName: `${name}_bucket`,
      labels: { le: le === Number.POSITIVE_INFINITY ? '+Inf' : le, ...labels },
      value: count,
    })),
    { metricName: `${name}_sum`, labels, value: sample.sum },
    { metricName: `${name}_count`, labels, value: sample.count },
  ]
}

/** The clients of each registry, by their labels. */
const registered = new WeakMap<Registry, Map<string, Measurable>>()

/**
 * Adds a client's metrics to a registry of prom-client, which reads them when it is scraped. `labels` tell the clients of one
 * registry apart: a client with the same labels as an earlier one takes its place.
 */
export function registerMetrics(client: Measurable, registry: Registry, labels: Record<string, string> = {}): void {
  const key = JSON.stringify(Object.entries(labels).sort())
  const { families } = client.metrics()
  const present = registered.get(registry)
  // Unless the registry was cleared meanwhile.
  if (present !== undefined && families[0] !== undefined && registry.getSingleMetric(prometheus(families[0]))) {
    present.set(key, client)
    return
  }
  const clients = new Map([[key, client]])
  registered.set(registry, clients)
  for (const [index, family] of families.entries()) {
    const { help } = family
    const [name, type] = [prometheus(family), typeOf(family)]
    const get = () => {
      const values = [...clients].flatMap(([each, measured]) => {
        const own = Object.fromEntries(JSON.parse(each))
        return (measured.metrics().families[index]?.samples ?? []).flatMap((sample) => toValues(name, sample, own))
      })
      return { name, help, type, values, aggregator: 'sum' }
    }
    registry.registerMetric({ name, help, type, get, collect: undefined, reset() {}, labelNames: [] } as never)
  }
}

/**
 * Observes a client's metrics by a meter of OpenTelemetry. A duration is two counters, `….count` and `….sum`, because a histogram
 * cannot be observed there. `attributes` tell several clients apart.
 */
export function observeMetrics(client: Measurable, meter: Meter, attributes: Record<string, string> = {}): void {
  for (const [index, family] of client.metrics().families.entries()) {
    const options = { description: family.help, ...(family.unit !== undefined && { unit: family.unit }) }
    const observe = (instrument: Observable, value: (sample: MetricSample) => number) =>
      instrument.addCallback((result) => {
        for (const sample of client.metrics().families[index]?.samples ?? []) {
          result.observe(value(sample), { ...attributes, ...sample.labels })
        }
      })
    const plain = (sample: MetricSample) => (sample as Exclude<MetricSample, Histogram>).value
    const type = typeOf(family)
    if (type === 'gauge') observe(meter.createObservableGauge(family.name, options), plain)
    if (type === 'counter') observe(meter.createObservableCounter(family.name, options), plain)
    if (type === 'histogram') {
      const count = meter.createObservableCounter(`${family.name}.count`, { description: family.help })
      observe(count, (sample) => (sample as Histogram).count)
      observe(meter.createObservableCounter(`${family.name}.sum`, options), (sample) => (sample as Histogram).sum)
    }
  }
}
