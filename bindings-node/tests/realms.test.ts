/**
 * What comes from elsewhere: another realm, as Jest runs each test file in one, and signals of other makes.
 */

import { EventEmitter } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { expect, test } from 'vitest'
import type * as Leasehold from '../dist/index.mjs'
import { Client } from '../dist/index.mjs'
import { code, failure, keys, name, open, until } from './support'

/** The package as a test runner loads it in a realm of its own: only what is built into Node, and native code, is shared. */
function inRealm(): typeof Leasehold {
  const context = createContext({ process, Buffer, AbortController, AbortSignal, DOMException, queueMicrotask })
  const loaded = new Map<string, { exports: unknown }>()
  const load = (path: string): unknown => {
    const found = loaded.get(path)
    if (found !== undefined) return found.exports
    const module = { exports: {} }
    loaded.set(path, module)
    const outer = createRequire(path)
    const inner = (asked: string) => {
      const place = outer.resolve(asked)
      if (place.endsWith('.json')) return JSON.parse(readFileSync(place, 'utf8'))
      return place.endsWith('.js') ? load(place) : outer(asked)
    }
    const code = `(function (exports, require, module, __filename, __dirname) {${readFileSync(path, 'utf8')}\n})`
    runInContext(code, context, path)(module.exports, inner, module, path, dirname(path))
    return module.exports
  }
  return load(join(import.meta.dirname, '../dist/index.js')) as typeof Leasehold
}

test('in another realm errors are still those of leasehold', async () => {
  const leasehold = inRealm()
  expect(leasehold.Client).not.toBe(Client)
  for (const url of ['nonsense://x', 'http://a:2379?ttl=1s']) {
    const error = await failure((async () => new leasehold.Client(url))())
    expect(error).toBeInstanceOf(leasehold.InvalidArgumentError)
    expect(error).toMatchObject({ code: 'ERR_LEASEHOLD_INVALID_ARGUMENT', number: 20 })
  }
})

test('in another realm bytes are still bytes', async () => {
  const leasehold = inRealm()
  const client = new leasehold.Client('memory://realms')
  const guard = await client.acquire('/lock')
  await guard.put(Buffer.from('/a'), new Uint8Array([0, 255]))
  const { values } = await guard.txn([{ get: '/a' }])
  expect([...(values[0] ?? [])]).toEqual([0, 255])
  await client.close()
})

/** A signal as npm's abort-controller makes it: neither a reason nor `throwIfAborted`. */
class PlainSignal {
  aborted = false
  readonly #events = new EventEmitter()
  addEventListener(event: string, listener: () => void): void {
    this.#events.on(event, listener)
  }
  removeEventListener(event: string, listener: () => void): void {
    this.#events.off(event, listener)
  }
  get listeners(): number {
    return this.#events.listenerCount('abort')
  }
  abort(): void {
    this.aborted = true
    this.#events.emit('abort')
  }
}

test('a signal of another make does as well', async () => {
  const [client, lock] = [open(), name()]
  const guard = await client.acquire(lock)
  const plain = new PlainSignal()
  const signal = plain as never
  const waiting = failure(client.acquire(lock, { signal }))
  await until(async () => (await client.queue(lock)).length === 2, 'it queues')
  plain.abort()
  expect(await waiting).toMatchObject({ name: 'AbortError' })
  expect(await failure(client.acquire(lock, { signal }))).toMatchObject({ name: 'AbortError' })
  expect(await keys(lock)).toEqual([guard.key])
  expect(plain.listeners).toBe(0)
})

test('an operation that cannot be started leaves no listener', async () => {
  const guard = await open().acquire(name())
  const signal = new PlainSignal()
  const { operations } = createRequire(import.meta.url)('../dist/operations.js')
  const begin = () => {
    throw new Error('on purpose')
  }
  expect(await failure(operations().run(begin, signal))).toMatchObject({ message: 'on purpose' })
  expect(signal.listeners).toBe(0)
  // As the package itself can meet it: half a character in a text that nobody has checked.
  const wrong = guard.txn([{ put: 'k', value: 'v' }, { get: '\ud800' }], { signal: signal as never })
  expect(await code(wrong)).toBe('INVALID_ARGUMENT')
  expect(signal.listeners).toBe(0)
})
