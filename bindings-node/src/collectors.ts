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

/**
 * Adds a client's metrics to a registry of prom-client, which reads them when it is scraped. `labels` tell several clients
 * apart, which need registries of their own.
 */
export function registerMetrics(client: Measurable, registry: Registry, labels: Record<string, string> = {}): void {
  for (const [index, family] of client.metrics().families.entries()) {
    const { help, name } = family
    const type = typeOf(family)
    // As prom-client has it: a counter's name says that it is a total.
    const full = type === 'counter' ? `${name}_total` : name
    const get = () => {
      const { samples = [] } = client.metrics().families[index] ?? {}
      const values = samples.flatMap<PromValue>((sample) => {
        const own = { ...labels, ...sample.labels }
        if (sample.type !== 'histogram') return [{ value: sample.value, labels: own }]
        return [
          ...sample.buckets.map(({ le, count }) => ({
            metricName: `${full}_bucket`,
            labels: { le: le === Number.POSITIVE_INFINITY ? '+Inf' : le, ...own },
            value: count,
          })),
          { metricName: `${full}_sum`, labels: own, value: sample.sum },
          { metricName: `${full}_count`, labels: own, value: sample.count },
        ]
      })
      return { name: full, help, type, values, aggregator: 'sum' }
    }
    registry.registerMetric({ name: full, help, type, get, collect: undefined, reset() {}, labelNames: [] } as never)
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
