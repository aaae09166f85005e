/** Elections: campaign, proclaim, leader, observe. */

import { once } from 'node:events'
import { expect, test } from 'vitest'
import type { Leader } from '../dist/index.mjs'
import { code, failure, keys, name, open, run, until } from './support'

const said = (leader: Leader | null | undefined) => leader && String(leader.value)

test('candidates lead one after the other, and say so', async () => {
  const [a, b, election] = [open(), open(), name()]
  expect(await a.election(election).leader()).toBeNull()
  const first = await a.election(election).campaign('a', { ttl: 5_000 })
  const waiting = b.election(election).campaign(new Uint8Array([98]))
  await until(async () => (await a.queue(election)).length === 2, 'it queues')
  const leader = await b.election(election).leader()
  expect(leader).toMatchObject({ key: first.key, token: first.token, value: Buffer.from('a') })
  await first.proclaim('ä')
  expect(said(await b.election(election).leader())).toBe('ä')
  expect(await code(b.election(election).campaign('c', { wait: 100 }))).toBe('NOT_ACQUIRED')
  await first.resign()
  const second = await waiting
  expect(said(await a.election(election).leader())).toBe('b')
  expect(second.token).toBeGreaterThan(first.token)
  expect(await code(first.proclaim('late'))).toBe('NOT_HELD')
  const lost = once(second, 'lost')
  await a.forceRelease(election, second.token)
  expect(await lost).toEqual(['KEY_DELETED'])
  expect(await code(second.proclaim('late'))).toBe('LOST')
  expect(await keys(election)).toEqual([])
})

test('an observer sees who leads, every change, and nobody', async () => {
  const [client, election] = [open(), open().election(name())]
  const observer = client.election(election.name).observe()
  expect((await observer.next()).value).toBeNull()
  const seen: unknown[] = []
  const watching = (async () => {
    for await (const leader of observer) {
      seen.push(said(leader))
      expect(observer.isAfterGap).toBe(false)
      if (seen.length === 4) break
    }
  })()
  const first = await election.campaign('1')
  await first.proclaim('2')
  await first.release()
  await election.campaign('3')
  await watching
  expect(seen).toEqual(['1', '2', null, '3'])
  expect(await observer.next()).toEqual({ done: true, value: undefined })
})

test('an observer ends with its signal, its client, or an error', async () => {
  const [client, election] = [open(), name()]
  const controller = new AbortController()
  const aborted = client.election(election).observe({ signal: controller.signal })
  await aborted.next()
  const waiting = failure(aborted.next())
  controller.abort(new Error('mine'))
  expect(await waiting).toBe(controller.signal.reason)
  expect((await aborted.next()).done).toBe(true)
  expect(await failure(client.election(election).observe({ signal: AbortSignal.abort() }).next())).toMatchObject({
    name: 'AbortError',
  })

  expect(await code(client.election('').observe().next())).toBe('INVALID_ARGUMENT')
  const observer = client.election(election).observe()
  await observer.next()
  const end = observer.next()
  await client.close()
  expect(await end).toEqual({ done: true, value: undefined })
  expect(await code(client.election(election).observe().next())).toBe('CLOSED')
})

test('many changes that nobody takes are bounded, and the gap is told', async () => {
  const [client, election] = [open(), name()]
  const observer = client.election(election).observe()
  await observer.next()
  const leadership = await client.election(election).campaign('0')
  for (let index = 1; index <= 1_500; index += 100) {
    await Promise.all(Array.from({ length: 100 }, (_, step) => leadership.proclaim(String(index + step))))
  }
  const gaps: boolean[] = []
  for await (const leader of observer) {
    gaps.push(observer.isAfterGap)
    if (leader !== null && gaps.length >= 1_024) break
  }
  expect(gaps[0]).toBe(true)
  expect(gaps.filter(Boolean)).toHaveLength(1)
})

test('an observer that waits keeps its process alive, and one that has ended does not', async () => {
  const election = name()
  const client = open()
  let heard = ''
  const ran = run('observes.mjs', [election], {
    heard: (text) => {
      heard += text
    },
  })
  await until(() => heard.includes('its own'), 'it leads, and has seen it')
  // From here on nothing happens there until this one leads.
  const leading = client.election(election).campaign('end')
  await until(async () => (await client.queue(election)).length === 2, 'it queues')
  const [own] = await client.queue(election)
  await client.forceRelease(election, own?.token ?? 0n)
  const { code, out } = await ran
  expect([code, out]).toEqual([0, 'null\nits own\nend\n'])
  await (await leading).release()
})

test('an observer that nobody waits for keeps no process alive', async () => {
  const { code, out } = await run('observes-once.mjs', [name()])
  expect([code, out]).toEqual([0, 'null\n'])
})

test('metrics are values and text', async () => {
  const [client, lock] = [open(), name()]
  await client.withLock(lock, () => {})
  const { families, text } = client.metrics()
  expect(text).toMatch(/^# (TYPE|HELP) leasehold_/)
  expect(text.trim().endsWith('# EOF')).toBe(true)
  for (const { name, help, samples } of families) {
    expect(name).toMatch(/^leasehold_[a-z_]+$/)
    expect(help).toMatch(/\w/)
    for (const sample of samples) {
      expect(text).toContain(name)
      if (sample.type !== 'histogram') expect(sample.value).toBeTypeOf('number')
      else expect(sample.buckets.at(-1)).toEqual({ le: Number.POSITIVE_INFINITY, count: sample.count })
    }
  }
  const acquires = families.find(({ name }) => name.includes('acquire') && name.includes('seconds'))
  expect(acquires?.samples).toMatchObject([{ type: 'histogram', labels: { outcome: 'ok' }, count: 1 }])
})
