/** The same lock in other words: as an object, as the Web Locks API has it, and errors that users' tests make. */

import { once } from 'node:events'
import { describe, expect, inject, test } from 'vitest'
import {
  Client,
  type ErrorCode,
  LeaseholdError,
  LostError,
  locks,
  NotAcquiredError,
  type WebLock,
} from '../dist/index.mjs'
import { startEtcd } from '../dist/testing.mjs'
import { code, failure, freeze, keys, name, open, run, until } from './support'

describe('a lock as an object', () => {
  test('has its options, and takes others', async () => {
    const client = open()
    const lock = client.lock(name(), { ttl: 30_000 })
    expect(await lock.run((guard) => [guard.name, guard.held])).toEqual([lock.names, true])
    const guard = await lock.acquire()
    expect(guard.remaining).toBeLessThanOrEqual(30_000)
    const impatient = client.lock(lock.names, { wait: 200 })
    expect(await code(impatient.acquire())).toBe('NOT_ACQUIRED')
    expect(await code(impatient.run(() => {}))).toBe('NOT_ACQUIRED')
    expect(await code(lock.run({ wait: 1 }, () => {}))).toBe('NOT_ACQUIRED')
    expect(await lock.tryAcquire()).toBeNull()
    await guard.release()
    expect((await lock.tryAcquire({ shared: true }))?.held).toBe(true)
    expect(await code(lock.run(undefined as never))).toBe('INVALID_ARGUMENT')
  })

  test('says at once what is wrong with them', () => {
    const client = open()
    const wrong = (act: () => unknown) => expect(act).toThrowError(expect.objectContaining({ number: 20 }))
    wrong(() => client.lock(7 as never))
    wrong(() => client.lock('/a', { waits: 5 } as never))
    wrong(() => client.lock('/a', { permits: 5 }))
  })
})

describe('Web Locks', () => {
  test('request, if available, shared, and query', async () => {
    const [client, lock] = [open({ identity: 'web' }), name()]
    const manager = locks(client)
    let end = () => {}
    const held = manager.request(
      lock,
      (granted) =>
        new Promise<string>((resolve) => {
          end = () => resolve(`${granted?.name} ${granted?.mode} ${typeof granted?.guard.token}`)
        }),
    )
    await until(async () => (await keys(lock)).length === 1, 'it is held')
    expect(await manager.request(lock, { ifAvailable: true }, (granted) => granted)).toBeNull()
    const waiting = locks(open({ identity: 'waits' })).request(lock, { mode: 'shared' }, (granted) => granted?.mode)
    await until(async () => (await client.queue(lock)).length === 2, 'it queues')
    expect(await manager.query()).toEqual({
      held: [{ name: lock, mode: 'exclusive', clientId: 'web' }],
      pending: [{ name: lock, mode: 'shared', clientId: 'waits' }],
    })
    end()
    expect(await held).toBe(`${lock} exclusive bigint`)
    expect(await waiting).toBe('shared')
    expect(await manager.query()).toEqual({ held: [], pending: [] })
    expect(await manager.query([lock])).toEqual({ held: [], pending: [] })
    expect(await manager.request(lock, { ifAvailable: true }, (granted) => granted?.guard.held)).toBe(true)
    // Nor does it wait for itself: that would be a deadlock, and this is an answer.
    const inside = manager.request(lock, () => manager.request(lock, { ifAvailable: true }, (granted) => granted))
    expect(await inside).toBeNull()
    expect(await code(manager.request(lock, () => manager.request(lock, () => {})))).toBe('WOULD_DEADLOCK')
    // What the callback throws is not mistaken for a lock that cannot be had.
    const mine = new NotAcquiredError('mine')
    const thrown = manager.request(lock, { ifAvailable: true }, () => Promise.reject(mine))
    expect(await failure(thrown)).toBe(mine)
  })

  test('an aborted request, and a stolen lock', async () => {
    const [client, other, lock] = [open(), open(), name()]
    let stolen: WebLock | null = null
    const robbed = code(
      locks(client).request(lock, async (granted) => {
        stolen = granted
        await once(granted?.guard.signal as never, 'abort')
      }),
    )
    await until(() => stolen !== null, 'it is held')
    const aborted = locks(other).request(lock, { signal: AbortSignal.timeout(100) }, () => {})
    expect(await failure(aborted)).toMatchObject({ name: 'TimeoutError' })
    expect(await locks(other).request(lock, { steal: true }, () => 'stolen')).toBe('stolen')
    expect(await robbed).toBe('LOST')
    for (const options of [
      { steal: true, ifAvailable: true },
      { steal: true, mode: 'shared' },
      { mode: 'x' },
      // Left aside, it would wait for ever.
      { ifAvailible: true },
      { wait: 5 },
      { signal: 5 },
    ]) {
      expect(await code(locks(client).request(lock, options as never, () => {}))).toBe('INVALID_ARGUMENT')
    }
  })

  test('a client has one manager, which knows its requests wherever they are made', async () => {
    const [client, lock] = [open({ identity: 'one' }), name()]
    expect(locks(client)).toBe(locks(client))
    expect(locks(open())).not.toBe(locks(client))
    const held = [{ name: lock, mode: 'exclusive', clientId: 'one' }]
    expect(await locks(client).request(lock, () => locks(client).query())).toEqual({ held, pending: [] })
    // One name, and not the letters of it.
    expect(await locks(open()).request(lock, () => locks(client).query(lock))).toMatchObject({ held: [{ name: lock }] })
  })
})

describe('errors', () => {
  test('can be made by tests of users', () => {
    const cause = new Error('why')
    const error = new LostError('it is gone', { reason: 'EXPIRED', cause })
    expect(error).toMatchObject({ code: 'ERR_LEASEHOLD_LOST', number: 12, reason: 'EXPIRED', name: 'LostError', cause })
    expect(error).toBeInstanceOf(LeaseholdError)
    const busy: LeaseholdError = new NotAcquiredError('busy')
    const codes: ErrorCode = busy.code
    expect([codes, busy.number, busy.message]).toEqual(['ERR_LEASEHOLD_NOT_ACQUIRED', 10, 'busy'])
    expect(String(busy.stack)).toMatch(/^NotAcquiredError: busy/)
  })
})

describe('closeOnSignal', () => {
  test('closes before the process ends by its signal', async () => {
    const lock = name()
    const { code, signal, out, errors } = await run('ends-by-signal.mjs', [lock, 'alone'])
    expect({ code, signal, errors }).toEqual({ code: null, signal: 'SIGTERM', errors: '' })
    expect(out).toContain('held')
    expect(await keys(lock)).toEqual([])
  })

  test.each(['listened', 'once'])('leaves the end to others who listen: %s', async (way) => {
    const lock = name()
    const { code, signal, out, errors } = await run('ends-by-signal.mjs', [lock, way])
    expect({ code, signal, out, errors }).toEqual({ code: 7, signal: null, out: 'held\nCLIENT_CLOSED\n', errors: '' })
    expect(await keys(lock)).toEqual([])
  })

  test("listeners of npm's signal-exit leave the end to it", async () => {
    // An etcd of its own, which does not answer for a while: nobody ends the process before it has.
    await using etcd = await startEtcd({ binary: inject('etcd'), startTimeout: 60_000 })
    const lock = name()
    const { signal, out, errors } = await run('ends-by-signal.mjs', [lock, 'undecided'], {
      endpoint: etcd.endpoint,
      heard: async (text, child) => {
        if (!text.includes('held')) return
        await freeze(etcd.pid)
        child.kill('SIGTERM')
        setTimeout(() => process.kill(etcd.pid, 'SIGCONT'), 500)
      },
    })
    expect({ signal, out, errors }).toEqual({ signal: 'SIGTERM', out: 'held\nat the end null SIGTERM\n', errors: '' })
    const client = new Client(etcd.endpoint)
    expect(await Promise.all([0, 1].map((index) => client.queue(`${lock}/${index}`)))).toEqual([[], []])
    await client.close()
  })

  test('a second signal does not wait for an etcd that does not answer', async () => {
    await using etcd = await startEtcd({ binary: inject('etcd'), startTimeout: 60_000 })
    let told = 0
    const { signal, lingered } = await run('ends-by-signal.mjs', [name(), 'twice'], {
      endpoint: etcd.endpoint,
      heard: async (_, child) => {
        await freeze(etcd.pid)
        // Two signals that find a process that is held up are one to it, hence as many as it takes.
        const again = setInterval(() => {
          told += 1
          child.kill('SIGTERM')
        }, 500)
        child.once('exit', () => clearInterval(again))
      },
    })
    expect(signal).toBe('SIGTERM')
    expect(told).toBeGreaterThan(1)
    expect(lingered).toBeLessThan(60_000)
  })

  test('two copies of the package leave the end to nobody', async () => {
    const lock = name()
    const { signal, errors } = await run('ends-by-signal.mjs', [lock, 'copies'])
    expect({ signal, errors }).toEqual({ signal: 'SIGTERM', errors: '' })
    expect(await keys(lock)).toEqual([])
  })

  test('is checked', () => {
    for (const closeOnSignal of [['SIGKILL'], ['SIGNONE'], 'SIGTERM', 1]) {
      expect(() => open({ closeOnSignal } as never)).toThrowError(expect.objectContaining({ number: 20 }))
    }
  })
})
