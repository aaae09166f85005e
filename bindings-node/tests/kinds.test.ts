/** Shares, permits, and what is refused of them. */

import { describe, expect, test } from 'vitest'
import { Client, currentGuard } from '../dist/index.mjs'
import { code, failure, keys, name, open, until } from './support'

describe('shares', () => {
  test('are held side by side, and a writer waits for them and before those behind it', async () => {
    const [client, other, lock] = [open(), open(), name()]
    const readers = [await client.acquire(lock, { shared: true }), await other.acquire(lock, { shared: true })]
    expect(await client.tryAcquire(lock)).toBeNull()
    const order: string[] = []
    const writer = client.acquire(lock).then((guard) => {
      order.push('writer')
      return guard
    })
    await until(async () => (await client.queue(lock)).length === 3, 'the writer queues')
    const late = other.acquire(lock, { shared: true }).then((guard) => {
      order.push('reader')
      return guard
    })
    await until(async () => (await client.queue(lock)).length === 4, 'the late reader queues')
    const queue = await client.queue(lock)
    expect(queue.map(({ shared, holder }) => [shared, holder])).toEqual([
      [true, true],
      [true, true],
      [false, false],
      [true, false],
    ])
    expect(queue[0]?.since).toBeInstanceOf(Date)
    expect(Math.abs(Date.now() - Number(queue[0]?.since))).toBeLessThan(60_000)
    for (const reader of readers) await reader.release()
    await (await writer).release()
    await (await late).release()
    expect(order).toEqual(['writer', 'reader'])
    expect(await keys(lock)).toEqual([])
  })

  test('inside each other are no deadlock, and all of it inside a share is one', async () => {
    const [client, lock] = [open(), name()]
    const nested = await client.withLock(lock, { shared: true }, () => client.withLock(lock, { shared: true }, () => 7))
    expect(nested).toBe(7)
    await client.withLock(lock, { shared: true }, async () => {
      expect(await code(client.withLock(lock, () => {}))).toBe('WOULD_DEADLOCK')
      expect(await code(open().withLock(lock, () => {}))).toBe('WOULD_DEADLOCK')
    })
    await client.withLock(lock, async () => {
      expect(await code(client.withLock(lock, { shared: true }, () => {}))).toBe('WOULD_DEADLOCK')
    })
  })
})

describe('permits', () => {
  test('are given as far as they go', async () => {
    const [client, lock] = [open(), name()]
    const two = await client.acquire(lock, { permits: 2, of: 3 })
    const one = await client.acquire(lock, { of: 3 })
    expect(await client.tryAcquire(lock, { of: 3 })).toBeNull()
    expect(await client.queue(lock)).toMatchObject([
      { permits: 2, of: 3, holder: true, shared: false },
      { permits: 1, of: 3, holder: true },
    ])
    await one.release()
    const again = await client.tryAcquire(lock, { permits: 1, of: 3 })
    expect(again?.held).toBe(true)
    expect(await code(client.acquire(lock, { of: 4 }))).toBe('LIMIT_MISMATCH')
    expect(await code(client.acquire(lock, { shared: true }))).toBe('LIMIT_MISMATCH')
    await two.release()
    await again?.release()
  })

  test('inside each other are a deadlock only where they do not fit', async () => {
    const [client, lock] = [open(), name()]
    await client.withLock(lock, { permits: 2, of: 3 }, async () => {
      expect(await client.withLock(lock, { of: 3 }, () => 7)).toBe(7)
      expect(await code(client.withLock(lock, { permits: 2, of: 3 }, () => {}))).toBe('WOULD_DEADLOCK')
    })
  })

  test('what is wrong is said, and nothing is done', async () => {
    const [client, lock] = [open(), name()]
    for (const options of [
      { permits: 0, of: 3 },
      { permits: 4, of: 3 },
      { permits: 1, of: 0 },
      { permits: 1, of: 2 ** 31 },
      { permits: 1, of: 2 ** 40 },
      { permits: 1.5, of: 3 },
      { permits: -1, of: 3 },
      { permits: 1 },
      { permits: 1, of: 3, shared: true },
      { permits: '1', of: 3 },
      { shared: 1 },
    ]) {
      expect(await code(client.acquire(lock, options as never)), JSON.stringify(options)).toBe('INVALID_ARGUMENT')
    }
    expect(await keys(lock)).toEqual([])
  })
})

test('the guard of the code that runs is known, inside out', async () => {
  const client = new Client('memory://current')
  expect(currentGuard()).toBeUndefined()
  await client.withLock('/a', async (a) => {
    await Promise.resolve()
    expect(currentGuard()).toBe(a)
    await client.withLock('/b', async (b) => {
      expect(currentGuard()).toBe(b)
      expect(currentGuard('/a')).toBe(a)
      expect(currentGuard('/c')).toBeUndefined()
    })
    expect(currentGuard()).toBe(a)
  })
  expect(currentGuard()).toBeUndefined()
  await client.close()
})

describe('shared within a client', () => {
  test('a lock that is local first is passed on under one token', async () => {
    const [client, lock] = [open(), name()]
    const owners: [bigint, bigint][] = []
    const options = { localFirst: { turns: 10, time: 60_000 } }
    const turns = Array.from({ length: 20 }, () =>
      client.withLock(lock, options, ({ token, sequence }) => {
        owners.push([token, sequence])
      }),
    )
    await Promise.all(turns)
    expect(owners).toHaveLength(20)
    const tokens = [...new Set(owners.map(([token]) => token))]
    expect(tokens.length).toBeLessThan(20)
    expect(owners.map(([, sequence]) => sequence)).toContain(1n)
    expect(new Set(owners.map(String)).size).toBe(20)
    expect(await keys(lock)).toEqual([])
    expect(await client.withLock(lock, { localFirst: true }, () => 7)).toBe(7)
  })

  test('a lock that lingers is there at once, until somebody else queues', async () => {
    const [client, other, lock] = [open(), open(), name()]
    const first = await client.acquire(lock, { linger: 30_000 })
    const { token, sequence } = first
    await first.release()
    const second = await client.acquire(lock, { linger: 30_000 })
    expect([second.token, second.sequence > sequence]).toEqual([token, true])
    await second.release()
    expect(await other.tryAcquire(lock)).toBeNull()
    const third = await other.acquire(lock, { wait: 60_000 })
    expect(third.token).toBeGreaterThan(token)
  })

  test('what cannot have it is refused', async () => {
    const [client, lock] = [open(), name()]
    for (const options of [
      { localFirst: { turns: 0 } },
      { localFirst: { time: 0 } },
      { localFirst: { turn: 1 } },
      { localFirst: 'yes' },
      { localFirst: true, shared: true },
      { linger: 100, of: 3 },
      { linger: -1 },
    ]) {
      expect(await code(client.acquire(lock, options as never)), JSON.stringify(options)).toBe('INVALID_ARGUMENT')
    }
    expect(await keys(lock)).toEqual([])
  })
})

describe('several at once', () => {
  test('are held together, under one token, and left together', async () => {
    const [client, other, lock] = [open(), open(), name()]
    const names = [`${lock}/b`, { name: `${lock}/a`, shared: true }, { name: `${lock}/c`, of: 2 }]
    const seen = await client.withLocks(names, async (guard) => {
      expect(guard.keys).toHaveLength(3)
      expect(guard.keys[0]).toBe(guard.key)
      expect((await keys(`${lock}/`)).toSorted()).toEqual([...guard.keys].toSorted())
      expect(await other.tryAcquire(`${lock}/b`)).toBeNull()
      expect(await other.tryAcquire([`${lock}/free`, `${lock}/b`])).toBeNull()
      expect(await keys(`${lock}/free`)).toEqual([])
      await other.withLock(`${lock}/a`, { shared: true }, () => {})
      await other.withLock(`${lock}/c`, { of: 2 }, () => {})
      expect(await code(client.withLock(`${lock}/a`, () => {}))).toBe('WOULD_DEADLOCK')
      expect(await code(other.withLocks([`${lock}/free`, `${lock}/b`], () => {}))).toBe('WOULD_DEADLOCK')
      expect(currentGuard(`${lock}/c`)).toBe(guard)
      await guard.put(`${lock}-data`, 'x')
      return guard.token
    })
    expect(seen).toBeTypeOf('bigint')
    expect(await keys(`${lock}/`)).toEqual([])
  })

  test('in opposite orders never end in a deadlock', async () => {
    const [a, b, lock] = [open(), open(), name()]
    const names = [`${lock}/1`, `${lock}/2`]
    let inside = 0
    const work = async () => {
      inside += 1
      expect(inside).toBe(1)
      await Promise.resolve()
      inside -= 1
    }
    const rounds = Array.from({ length: 40 }, (_, round) =>
      (round % 2 === 0 ? a : b).withLocks(round % 3 === 0 ? names : names.toReversed(), work),
    )
    await Promise.all(rounds)
    expect(await keys(`${lock}/`)).toEqual([])
  })

  test('a waiter that is aborted leaves all its queues', async () => {
    const [client, lock] = [open(), name()]
    const guard = await client.acquire(`${lock}/1`)
    const controller = new AbortController()
    const { signal } = controller
    const waiting = failure(client.acquire([`${lock}/2`, `${lock}/1`], { signal }))
    await until(async () => (await keys(`${lock}/2`)).length === 1, 'it queues')
    controller.abort()
    expect(await waiting).toBe(signal.reason)
    expect(await keys(`${lock}/`)).toEqual([guard.key])
  })

  test('what is wrong is said, and nothing is done', async () => {
    const [client, lock] = [open(), name()]
    const many = Array.from({ length: 33 }, (_, index) => `${lock}/${index}`)
    for (const names of [
      [],
      many,
      [lock, lock],
      [lock, { name: lock, shared: true }],
      [lock, 7],
      [{ nam: lock }],
      [{}],
    ]) {
      expect(await code(client.acquire(names as never)), JSON.stringify(names)).toBe('INVALID_ARGUMENT')
    }
    expect(await keys(lock)).toEqual([])
  })
})
