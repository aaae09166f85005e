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

test('clients of one registry are told apart by labels, and the same labels are the same place', async () => {
  const [a, b, later] = ['a', 'b', 'later'].map((each) => new Client(`memory://prom-${each}`)) as [
    Client,
    Client,
    Client,
  ]
  const registry = new Registry()
  registerMetrics(a, registry, { client: 'a', room: '1' })
  registerMetrics(b, registry, { client: 'b' })
  await Promise.all([a, b, b].map((client) => client.withLock('/a', () => {})))
  const counts = async () => (await registry.metrics()).match(/^leasehold_acquire_seconds_count.*$/gm)?.toSorted()
  const rest = 'outcome="ok"}'
  expect(await counts()).toEqual([
    `leasehold_acquire_seconds_count{client="a",room="1",${rest} 1`,
    `leasehold_acquire_seconds_count{client="b",${rest} 2`,
  ])
  // As after a reload of the module that makes the client.
  await later.withLock('/a', () => {})
  registerMetrics(later, registry, { room: '1', client: 'a' })
  await b.withLock('/a', () => {})
  expect((await counts())?.map((line) => line.replace(/.*} /, ''))).toEqual(['1', '3'])
  registry.clear()
  registerMetrics(b, registry)
  expect(await counts()).toEqual([`leasehold_acquire_seconds_count{${rest} 3`])
  await Promise.all([a, b, later].map((client) => client.close()))
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
