/** The lock through the public API, on a real etcd: acquire, guard, scope, queue, events. */

import { once } from 'node:events'
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { Client, type LeaseholdError, LostError, locks } from '../dist/index.mjs'
import { code, endpoint, failure, keys, name, open, until } from './support'

describe('acquire', () => {
  test('a guard knows its hold', async () => {
    const [client, lock] = [open(), name()]
    const guard = await client.acquire(lock)
    expect(guard.name).toBe(lock)
    expect(guard.token).toBeTypeOf('bigint')
    expect(guard.sequence).toBe(0n)
    expect(guard.key.startsWith(`${lock}/${guard.lease}`)).toBe(true)
    expect(guard.held).toBe(true)
    expect(guard.remaining).toBeGreaterThan(30_000)
    expect(guard.remaining).toBeLessThanOrEqual(60_000)
    expect(await keys(lock)).toEqual([guard.key])
    // As logs show it.
    const shown = `Guard { name: '${lock}', token: ${guard.token}n, key: '${guard.key}', held: true }`
    expect(inspect(guard).replaceAll(/\s+/g, ' ')).toBe(shown)
    expect(JSON.parse(JSON.stringify({ guard })).guard).toEqual({
      name: lock,
      token: String(guard.token),
      key: guard.key,
      held: true,
    })
    await guard.release()
    expect(guard.held).toBe(false)
    expect(guard.remaining).toBe(0)
    expect(await keys(lock)).toEqual([])
    expect(await code(guard.release())).toBe('NOT_HELD')
  })

  test('first come, first served, with growing tokens, across clients', async () => {
    const lock = name()
    const first = await open().acquire(lock)
    const order: number[] = []
    const client = open()
    const waiting: Promise<bigint>[] = []
    for (let turn = 0; turn < 5; turn += 1) {
      const acquired = client.acquire(lock).then(async (guard) => {
        order.push(turn)
        await guard.release()
        return guard.token
      })
      waiting.push(acquired)
      await until(async () => (await client.queue(lock)).length === turn + 2, 'it queues')
    }
    await first.release()
    const tokens = await Promise.all(waiting)
    expect(order).toEqual([0, 1, 2, 3, 4])
    expect([first.token, ...tokens].toSorted((a, b) => Number(a - b))).toEqual([first.token, ...tokens])
  })

  test('a try leaves nothing, a limit is kept', async () => {
    const [client, lock] = [open(), name()]
    const guard = await client.acquire(lock)
    expect(await open().tryAcquire(lock)).toBeNull()
    const begun = performance.now()
    const error = await failure(open().acquire(lock, { wait: 200 }))
    expect(error).toMatchObject({ code: 'ERR_LEASEHOLD_NOT_ACQUIRED', number: 10, name: 'NotAcquiredError' })
    expect(performance.now() - begun).toBeGreaterThan(190)
    expect(await keys(lock)).toEqual([guard.key])
    await guard.release()
    const won = await client.tryAcquire(lock)
    expect(won?.held).toBe(true)
  })

  test('without renewal it ends at its TTL', async () => {
    const [client, lock] = [open(), name()]
    const guard = await client.acquire(lock, { ttl: 5_000, renew: false })
    const begun = performance.now()
    await guard.extend(7_000)
    const [reason] = await once(guard, 'lost')
    expect(reason).toBe('EXPIRED')
    expect(performance.now() - begun).toBeGreaterThan(6_000)
    expect(guard.held).toBe(false)
  })

  test('what is wrong is said, and nothing is done', async () => {
    const client = open()
    const wrong = (act: () => unknown) => expect(act).toThrowError(expect.objectContaining({ number: 20 }))
    wrong(() => new Client('http://127.0.0.1:1', { ttl: 1 }))
    wrong(() => new Client('ftp://127.0.0.1:1'))
    wrong(() => new Client([]))
    wrong(() => new Client(7 as never))
    wrong(() => new Client('http://127.0.0.1:1', { password: 'x' }))
    const login = { user: 'root', password: 'x' }
    wrong(() => new Client('http://192.0.2.1:1', login))
    await new Client('http://192.0.2.1:1', { ...login, plaintextPassword: true }).close()
    wrong(() => new Client('http://127.0.0.1:1', { tll: 5_000 } as never))
    wrong(() => new Client('http://127.0.0.1:1', null as never))
    for (const lock of ['', 'a\0b', 'x'.repeat(1025), '\ud800', 7, undefined]) {
      expect(await code(client.acquire(lock as never))).toBe('INVALID_ARGUMENT')
    }
    for (const options of [
      { ttl: 1 },
      { ttl: -1 },
      { ttl: Number.NaN },
      { ttl: '5s' },
      { wait: -1 },
      { timeout: 5 },
      { signal: {} },
      null,
      7,
    ]) {
      expect(await code(client.acquire('/a', options as never)), JSON.stringify(options)).toBe('INVALID_ARGUMENT')
    }
    expect(await code(client.tryAcquire('/a', { wait: 5 } as never))).toBe('INVALID_ARGUMENT')
    expect(await code(client.withLock('/a', {}, undefined as never))).toBe('INVALID_ARGUMENT')
    // Another text would stand in its place, the same one for every half of a pair.
    wrong(() => new Client('http://127.0.0.1:1', { namespace: '/a\ud800' }))
    wrong(() => new Client('http://127.0.0.1:1', { identity: '\udc00' }))
    // Left aside, the options would mean nothing, and the wait would be for ever.
    const behind = [() => {}, { wait: 5 }] as never as [() => void]
    expect(await code(client.withLock('/a', ...behind))).toBe('INVALID_ARGUMENT')
    expect(await code(client.withLocks(['/a'], ...behind))).toBe('INVALID_ARGUMENT')
    expect(await code(client.lock('/a').run(...behind))).toBe('INVALID_ARGUMENT')
    expect(await code(locks(client).request('/a', ...behind))).toBe('INVALID_ARGUMENT')
    expect(String(await failure(client.withLock(['/a'] as never, () => {})))).toContain('not a list')
    expect(String(await failure(client.withLock({} as never, () => {})))).toContain('not an object')
    expect(String(await failure(client.acquire('/a', null as never)))).toContain('not null')
    expect(await code(client.forceRelease('/a', 5 as never))).toBe('INVALID_ARGUMENT')
    expect(await code(client.forceRelease('/a', 1n << 70n))).toBe('NOT_HELD')
  })

  test('an etcd that is not there is said so, with a stack that leads here', async () => {
    const client = new Client('http://127.0.0.1:1', { requestTimeout: 300 })
    const error = (await failure(client.ping())) as LeaseholdError
    expect(error.code).toBe('ERR_LEASEHOLD_UNAVAILABLE')
    expect(error.stack).toMatch(/^UnavailableError: [\s\S]*lock\.test\.ts/)
    await client.close()
  })
})

describe('guard', () => {
  test('writes only while it holds', async () => {
    const [client, lock] = [open(), name()]
    const guard = await client.acquire(lock)
    const key = `${lock}-data`
    expect(await guard.put(key, 'ä')).toBeTypeOf('bigint')
    const { values, deleted } = await guard.txn([
      { get: key },
      { put: `${key}2`, value: new Uint8Array([0, 255]) },
      { get: `${key}2` },
      { delete: key },
      { get: key },
    ])
    expect(values).toEqual([Buffer.from('ä'), Buffer.from([0, 255]), null])
    expect(deleted).toBe(1)
    expect(await guard.delete(`${key}2`)).toBe(true)
    expect(await guard.delete(`${key}2`)).toBe(false)
    for (const steps of [null, 'x', [null], ['x'], [{}]]) {
      expect(await code(guard.txn(steps as never)), JSON.stringify(steps)).toBe('INVALID_ARGUMENT')
    }
    await open().forceRelease(lock, guard.token)
    expect(await code(guard.put(key, 'late'))).toBe('LOST')
    expect(await keys(key)).toEqual([])
  })

  test('a closed client loses its guards and ends its waiters', async () => {
    const [client, lock] = [open(), name()]
    const guard = await client.acquire(lock)
    const waiting = code(client.acquire(lock))
    await until(async () => (await client.queue(lock)).length === 2, 'it queues')
    await client.close()
    await client.close()
    expect(await waiting).toBe('CLOSED')
    expect(await failure(guard.release())).toMatchObject({ reason: 'CLIENT_CLOSED' })
    expect(await code(client.acquire(lock))).toBe('CLOSED')
    expect(await keys(lock)).toEqual([])
  })
})

describe('withLock', () => {
  test('brings the value, and releases', async () => {
    const [client, lock] = [open(), name()]
    expect(
      await client.withLock(lock, { wait: 1_000 }, async (guard) => {
        expect(guard.held).toBe(true)
        return await keys(lock)
      }),
    ).toHaveLength(1)
    expect(await client.withLock(lock, () => 7)).toBe(7)
    expect(await keys(lock)).toEqual([])
  })

  test('throws what its callback throws, and releases', async () => {
    const [client, lock] = [open(), name()]
    const mine = new Error('mine')
    expect(await failure(client.withLock(lock, () => Promise.reject(mine)))).toBe(mine)
    expect(
      await failure(
        client.withLock(lock, () => {
          throw mine
        }),
      ),
    ).toBe(mine)
    expect(await keys(lock)).toEqual([])
  })

  test('takes options that are inherited, and checks them', async () => {
    const [client, lock] = [open(), name()]
    class Defaults {
      get wait(): unknown {
        return 50
      }
    }
    const wrong = Object.create({ wait: '5s' })
    const guard = await client.acquire(lock)
    expect(await code(client.acquire(lock, new Defaults() as never))).toBe('NOT_ACQUIRED')
    expect(await code(client.withLock(lock, new Defaults() as never, () => {}))).toBe('NOT_ACQUIRED')
    expect(await code(client.withLock(lock, wrong, () => {}))).toBe('INVALID_ARGUMENT')
    expect(await code(client.acquire(lock, wrong))).toBe('INVALID_ARGUMENT')
    const inherited = Object.create({ identity: 'inherited' })
    expect(new Client('memory://inherited', inherited).identity).toBe('inherited')
    await guard.release()
  })

  test('tells of a loss, unless its callback failed', async () => {
    const [client, lock] = [open(), name()]
    const lost = client.withLock(lock, async (guard) => {
      await client.forceRelease(lock, guard.token)
      await once(guard.signal, 'abort')
    })
    expect(await failure(lost)).toMatchObject({ code: 'ERR_LEASEHOLD_LOST', reason: 'KEY_DELETED' })
    const failed = client.withLock(lock, async (guard) => {
      await client.forceRelease(lock, guard.token)
      await once(guard.signal, 'abort')
      guard.signal.throwIfAborted()
    })
    expect(await failure(failed)).toBeInstanceOf(LostError)
  })

  test('a generator, whose body would run without the lock, is refused', async () => {
    const [client, lock] = [open(), name()]
    const generators = [
      function* () {
        yield expect.unreachable()
      },
      async function* () {
        yield expect.unreachable()
      },
    ]
    for (const generator of generators) {
      expect(await code(client.withLock(lock, generator as never))).toBe('INVALID_ARGUMENT')
      expect(await code(client.lock(lock).run(generator as never))).toBe('INVALID_ARGUMENT')
      expect(await code(client.withLock(lock, async () => generator()))).toBe('INVALID_ARGUMENT')
    }
    expect(await keys(lock)).toEqual([])
  })

  test('a callback may release by itself', async () => {
    const [client, lock] = [open(), name()]
    expect(
      await client.withLock(lock, async (guard) => {
        await guard.release()
        return 'early'
      }),
    ).toBe('early')
  })

  test('inside itself it says so instead of hanging', async () => {
    const [client, lock] = [open(), name()]
    await client.withLock(lock, async () => {
      expect(await code(client.withLock(lock, () => {}))).toBe('WOULD_DEADLOCK')
      await client.withLock(`${lock}/other`, async () => {
        await Promise.resolve()
        expect(await code(client.withLock(lock, () => {}))).toBe('WOULD_DEADLOCK')
      })
    })
  })

  test('what is no deadlock is served', async () => {
    const [client, lock] = [open(), name()]
    // Side by side is no nesting, and neither is after it.
    await Promise.all([1, 2, 3].map(() => client.withLock(lock, () => {})))
    let end = () => {}
    const over = new Promise<void>((resolve) => {
      end = resolve
    })
    let after: Promise<number> | undefined
    await client.withLock(lock, () => {
      // What a callback leaves running: still inside by its async context, and over by then.
      after = over.then(() => client.withLock(lock, () => 1))
    })
    end()
    expect(await after).toBe(1)

    // Released, or lost, inside the callback.
    const released = await client.withLock(lock, async (guard) => {
      await guard.release()
      return await client.withLock(lock, () => 2)
    })
    expect(released).toBe(2)
    const lost = client.withLock(lock, async (guard) => {
      await client.forceRelease(lock, guard.token)
      await until(() => !guard.held, 'it is lost')
      expect(await client.withLock(lock, () => 3)).toBe(3)
    })
    expect(await code(lost)).toBe('LOST')
  })

  test('work that the callback starts and does not wait for says that it is detached', async () => {
    const [client, lock] = [open(), name()]
    let background: Promise<number> | undefined
    await client.withLock(lock, async () => {
      background = client.withLock(lock, { detached: true }, () => 7)
      await until(async () => (await client.queue(lock)).length === 2, 'it queues')
    })
    expect(await background).toBe(7)
    // Inside itself, it is a deadlock again.
    const inner = client.withLock(lock, { detached: true }, () => client.withLock(lock, () => {}))
    expect(await code(inner)).toBe('WOULD_DEADLOCK')
  })

  test('two clients of one etcd are seen', async () => {
    const [lock, other] = [name(), open()]
    await open().withLock(lock, async () => {
      expect(await code(other.withLock(lock, () => {}))).toBe('WOULD_DEADLOCK')
      expect(await code(open({ namespace: '/node' }).withLock(lock.slice('/node'.length), () => {}))).toBe(
        'WOULD_DEADLOCK',
      )
      // The same name in another namespace, or in another etcd, is another lock.
      expect(await open({ namespace: '/elsewhere' }).withLock(lock, () => 1)).toBe(1)
      const memory = new Client('memory://elsewhere')
      expect(await memory.withLock(lock, () => 2)).toBe(2)
      await memory.close()
    })
    expect(await keys(lock)).toEqual([])
  })
})

describe('dispose', () => {
  test('a guard and a client end with their block', async () => {
    const lock = name()
    {
      await using client = new Client(endpoint)
      await using guard = await client.acquire(lock)
      expect(guard.held).toBe(true)
      await using released = await client.acquire(`${lock}2`)
      await released.release()
    }
    expect(await keys(lock)).toEqual([])
  })
})

describe('client', () => {
  test('lists a queue', async () => {
    const lock = name()
    const [a, b] = [open({ identity: 'a' }), open({ identity: 'b' })]
    const guard = await a.acquire(lock)
    const waiting = b.acquire(lock)
    await until(async () => (await a.queue(lock)).length === 2, 'it queues')
    const [holder, waiter] = await a.queue(lock)
    expect(holder).toMatchObject({
      identity: 'a',
      token: guard.token,
      lease: guard.lease,
      pid: process.pid,
      foreign: false,
    })
    expect(waiter).toMatchObject({ identity: 'b' })
    await guard.release()
    await (await waiting).release()
  })

  test('tells of its session', async () => {
    const client = open()
    const states: unknown[] = []
    client.on('state', (state) => states.push(state))
    const guard = await client.acquire(name())
    await client.close()
    await until(() => states.length > 0, 'a state comes')
    expect(states.at(-1)).toEqual({ state: 'lost', reason: 'CLIENT_CLOSED' })
    expect(guard.held).toBe(false)
  })

  test('has a namespace', async () => {
    const [client, lock] = [open({ namespace: '/space', identity: 'me' }), name()]
    expect(inspect(client)).toBe("Client { identity: 'me' }")
    const guard = await client.acquire(lock)
    expect(guard.key.startsWith(`/space${lock}/`)).toBe(true)
    expect(await keys(`/space${lock}`)).toEqual([guard.key])
  })

  test('works without a server, and in a memory of one name', async () => {
    const [a, b] = [new Client('memory://one'), new Client('memory://one')]
    const guard = await a.acquire('/lock')
    expect(await b.tryAcquire('/lock')).toBeNull()
    await guard.release()
    expect(await b.tryAcquire('/lock')).not.toBeNull()
    await Promise.all([a.close(), b.close()])
  })
})
