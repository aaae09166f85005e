/** What lies between JavaScript and the core, without a server: completions, failures, panics, collection, logs. */

import { execFileSync } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Client, LeaseholdError, type LogRecord, setLogLevel } from '../dist/index.mjs'
import { target } from './etcd'
import { code, failure, name, run, until } from './support'

const require = createRequire(import.meta.url)
const { brought, operations } = require('../dist/operations.js')
const { native } = require('../dist/native.js')
const { toError } = require('../dist/errors.js')

/** Native code of this platform that was built for users lacks what this file needs. */
const hasTestOperations = typeof native.alive === 'function'

test('the package knows the native module as it is', () => {
  execFileSync(process.execPath, [join(import.meta.dirname, '../scripts/types.js'), target, '--check'], {
    stdio: 'inherit',
  })
})

describe.runIf(hasTestOperations)('operations', () => {
  const { environment } = operations()
  const start = async (begin: (tag: number) => number, signal?: AbortSignal) =>
    brought(await operations().run(begin, signal))

  test('a completion reaches its promise, thousands at once too', async () => {
    const texts = Array.from({ length: 5_000 }, (_, index) => `ä${index}`)
    expect(await Promise.all(texts.map((text) => start((tag) => environment.testEcho(tag, text))))).toEqual(texts)
  })

  test('every error number has its class and its code', async () => {
    const numbers = [10, 11, 12, 13, 14, 20, 21, 22, 30, 31, 32, 33, 34, 35, 36, 99]
    const names = new Set<string>()
    for (const number of numbers) {
      const error = (await failure(start((tag) => environment.testFail(tag, number)))) as LeaseholdError
      expect(error).toBeInstanceOf(LeaseholdError)
      expect(error.number).toBe(number)
      expect(error.code).toMatch(/^ERR_LEASEHOLD_[A-Z_]+$/)
      expect(error.name).toMatch(/Error$/)
      names.add(error.name)
    }
    expect(names.size).toBe(numbers.length)
    // One of a later core keeps its code.
    expect(toError({ code: 'LATER', message: 'x' })).toMatchObject({ code: 'ERR_LEASEHOLD_LATER', number: 99 })
  })

  test('a panic is an error, wherever it happens', async () => {
    for (const stage of [0, 1, 2]) {
      expect(await code(start((tag) => environment.testPanic(tag, stage)))).toBe('INTERNAL')
    }
    expect(await start((tag) => environment.testEcho(tag, 'alive'))).toBe('alive')
  })

  test('a value of another native module is no guard', () => {
    for (const value of [native.testExternal(), {}, null]) {
      expect(() => native.guardName(value)).toThrowError(expect.objectContaining({ code: 'InvalidArg' }))
    }
  })

  test('what never answers is aborted', async () => {
    for (let time = 0; time < 300; time += 1) {
      const signal = AbortSignal.timeout(time % 4)
      expect(await failure(start((tag) => environment.testNever(tag), signal))).toBe(signal.reason)
    }
    await until(() => native.alive().operations < 5, 'they are gone')
  })
})

describe('logs', () => {
  test('go to a diagnostics channel, from the level that was asked for', async () => {
    const records: LogRecord[] = []
    subscribe('leasehold:log', (record) => records.push(record as LogRecord))
    setLogLevel('trace')
    const client = new Client('memory://logs')
    const guard = await client.acquire(name())
    await guard.release()
    await client.close()
    const wrong = new Client('http://127.0.0.1:1', { requestTimeout: 100 })
    await failure(wrong.ping())
    await until(() => records.length > 0, 'a record comes')
    for (const record of records) {
      expect(record).toMatchObject({ target: expect.stringMatching(/^leasehold/), message: expect.any(String) })
      expect(['error', 'warn', 'info', 'debug', 'trace']).toContain(record.level)
    }
    setLogLevel('off')
    expect(() => setLogLevel('loud' as never)).toThrowError(/off, error, warn/)
  })
})

describe('collection', () => {
  test('cycles leave nothing behind', async () => {
    const count = process.env['LEASEHOLD_FULL'] === '1' ? 10_000 : 1_500
    const { out, errors } = await run('cycles-gc.mjs', [name(), String(count)])
    expect(errors).toBe('')
    const { before, after } = JSON.parse(out)
    console.log({ count, before, after })
    const { rss: rssBefore, ...countsBefore } = before
    const { rss: rssAfter, ...countsAfter } = after
    expect(countsAfter).toEqual(countsBefore)
    expect(rssAfter - rssBefore).toBeLessThan(16 * 1024)
  }, 900_000)

  test('a guard that was forgotten stays held, is told of once, and ends with its client', async () => {
    const { code, out, errors } = await run('forgets-gc.mjs', [name()])
    expect(code, errors).toBe(0)
    expect(JSON.parse(out)).toEqual({
      warned: ['plain', 'signal', 'on', 'once', 'late'],
      codes: ['LEASEHOLD_FORGOTTEN_GUARD'],
      count: 5,
      // Whoever wanted to be told of the loss is told all the same.
      heard: ['on', 'once', 'signal'],
      before: 5,
      after: 0,
    })
  })
})
