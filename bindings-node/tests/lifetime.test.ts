/** When a process ends, and what is left of it in etcd. */

import { describe, expect, inject, test } from 'vitest'
import { startEtcd } from '../dist/testing.mjs'
import { freeze, keys, name, open, run, until } from './support'

/** In full by option: LEASEHOLD_FULL=1. */
const isFull = process.env['LEASEHOLD_FULL'] === '1'

describe('the end of a process', () => {
  test('a script that falls off its end exits at once, and its lock is free', async () => {
    const lock = name()
    const { code, lingered, out, errors } = await run('falls-off.mjs', [lock, '600000'])
    expect({ code, errors }).toEqual({ code: 0, errors: '' })
    expect(out).toContain(lock)
    expect(lingered).toBeLessThan(60_000)
    expect(await keys(lock)).toEqual([])
  })

  test('a package that was loaded many times releases what each copy holds, without a warning', async () => {
    const lock = name()
    const { code, out, errors } = await run('reloaded.mjs', [lock, '12'])
    expect({ code, out, errors }).toEqual({ code: 0, out: '12\n', errors: '' })
    expect(await keys(`${lock}/`)).toEqual([])
  })

  test('the release at exit can be switched off', async () => {
    const lock = name()
    const { code, out } = await run('falls-off.mjs', [lock, '0'])
    expect(code).toBe(0)
    expect(await keys(lock)).toEqual([out.trim()])
  })

  test('the release at exit has a bound', async () => {
    // An etcd of its own, which does not answer any more when the program ends.
    await using etcd = await startEtcd({ binary: inject('etcd'), startTimeout: 60_000 })
    const frozen = await run('falls-off.mjs', [name(), '500', 'waits'], {
      endpoint: etcd.endpoint,
      heard: async (_, child) => {
        await freeze(etcd.pid)
        child.stdin.end()
      },
    })
    expect(frozen.code).toBe(0)
    expect(frozen.lingered).toBeGreaterThan(450)
    expect(frozen.lingered).toBeLessThan(60_000)
  })

  test('an acquire that waits keeps its process alive', async () => {
    const [client, lock] = [open(), name()]
    const guard = await client.acquire(lock)
    const ran = run('waits.mjs', [lock])
    await until(async () => (await client.queue(lock)).length === 2, 'it queues')
    const before = await client.queue(lock)
    expect(before).toHaveLength(2)
    await guard.release()
    const { code, out } = await ran
    expect(code).toBe(0)
    expect(out).toMatch(/got \d+/)
    expect(await keys(lock)).toEqual([])
  })

  const ends = [
    { way: 'exit', expected: 0 },
    { way: 'throw', expected: 1 },
    { way: 'reject', expected: 1 },
  ]
  test.each(ends)(
    'with thousands of operations pending: $way',
    async ({ way, expected }) => {
      const times = isFull ? 40 : 3
      for (let time = 0; time < times; time += 1) {
        const lock = name()
        const { code, signal, lingered } = await run('exits.mjs', [lock, way, '4000'])
        expect({ code, signal }).toEqual({ code: expected, signal: null })
        // The bound of the exit, and what a busy machine takes to end a process.
        expect(lingered).toBeLessThan(60_000)
        // What was not released within that bound ends with its lease.
        await until(async () => (await keys(`${lock}/`)).length === 0, 'its keys are gone')
      }
    },
    600_000,
  )

  test('workers that are terminated in mid-acquire leave no key', async () => {
    const { code, out, errors } = await run('workers.mjs', [name(), '20'])
    expect({ code, errors }).toEqual({ code: 0, errors: '' })
    expect(JSON.parse(out)).toEqual({ left: 0 })
  }, 120_000)
})
