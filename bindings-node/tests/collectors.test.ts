/** `leasehold/metrics`, with the real prom-client and the real OpenTelemetry. */

import { InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { observeMetrics, registerMetrics } from '../dist/collectors.mjs'
import { Client } from '../dist/index.mjs'

test('prom-client says what the client has counted, at each scrape', async () => {
  const client = new Client('memory://prom')
  const registry = new Registry()
  registerMetrics(client, registry, { client: 'a' })
  await client.withLock('/a', () => {})
  const first = await registry.metrics()
  expect(first).toMatch(/^# TYPE leasehold_acquire\w*_seconds histogram$/m)
  expect(first).toMatch(/^leasehold_acquire\w*_seconds_count\{client="a",outcome="ok"\} 1$/m)
  expect(first).toMatch(/^leasehold_acquire\w*_seconds_bucket\{le="\+Inf",client="a",outcome="ok"\} 1$/m)
  expect(first).toMatch(/^# TYPE leasehold_\w+_total counter$/m)
  await client.withLock('/a', () => {})
  expect(await registry.metrics()).toMatch(/^leasehold_acquire\w*_seconds_count\{client="a",outcome="ok"\} 2$/m)
  await client.close()
})

test('OpenTelemetry observes what the client has counted', async () => {
  const client = new Client('memory://otel')
  const exporter = new InMemoryMetricExporter(1)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 60_000 })
  const provider = new MeterProvider({ readers: [reader] })
  observeMetrics(client, provider.getMeter('leasehold'), { client: 'a' })
  await client.withLock('/a', () => {})
  await provider.forceFlush()
  const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
  const acquires = metrics.find(({ descriptor }) => /^leasehold_acquire\w*_seconds\.count$/.test(descriptor.name))
  expect(acquires?.dataPoints).toMatchObject([{ value: 1, attributes: { client: 'a', outcome: 'ok' } }])
  expect(metrics.some(({ descriptor }) => descriptor.name.endsWith('.sum'))).toBe(true)
  await provider.shutdown()
  await client.close()
})
