/** What a client has counted and timed, as values and as text. */

import type { Measured } from './module'

/** One value of a {@link MetricFamily}. */
export type MetricSample = {
  /** What it is about. */
  labels: { readonly [name: string]: string }
} & (
  | { type: 'counter'; value: number }
  | { type: 'gauge'; value: number }
  | {
      type: 'histogram'
      /** For each upper bound, in the family's unit, how many were at most so much. The last bound is `Infinity`. */
      buckets: { le: number; count: number }[]
      sum: number
      count: number
    }
)

/** One thing that is measured. */
export interface MetricFamily {
  /** Its name, `leasehold_…`, without the suffix that the text format gives to counters. */
  name: string
  /** One sentence for people. */
  help: string
  /** Its unit, where it has one; the name ends with it. */
  unit?: string
  /** Its values, one for each combination of labels that occurred. */
  samples: MetricSample[]
}

/** Everything that a client has counted and timed since it was made, at one moment. */
export interface Metrics {
  /** One for each thing that is measured, always in the same order. */
  families: MetricFamily[]
  /** The same in the text format of OpenMetrics 1.0, which Prometheus and OpenTelemetry's collector read. */
  text: string
}

export function toMetrics({ families, text }: Measured): Metrics {
  return {
    families: families.map(({ samples, ...family }) => ({
      ...family,
      samples: samples.map(({ labels: pairs, counter, gauge, buckets, sum = 0 }): MetricSample => {
        const labels = Object.fromEntries(pairs)
        if (counter !== undefined) return { labels, type: 'counter', value: counter }
        if (buckets === undefined) return { labels, type: 'gauge', value: gauge ?? 0 }
        const counts = buckets.map(([le = 0, count = 0]) => ({ le, count }))
        return { labels, type: 'histogram', buckets: counts, sum, count: counts.at(-1)?.count ?? 0 }
      }),
    })),
    text,
  }
}
