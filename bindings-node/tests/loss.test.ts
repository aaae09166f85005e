/** Being told of a loss: in time or late, once, whatever was done to the listeners. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { mock } from 'node:test'
import { expect, test, vi } from 'vitest'
import { type Client, type Guard, LostError, locks } from '../dist/index.mjs'
import { failure, name, open, until } from './support'

test('a loss is an event, a signal and an error, each once', async () => {
  const [client, lock] = [open(), name()]
  const guard = await client.acquire(lock)
  const reasons: string[] = []
  guard.on('lost', (reason) => reasons.push(reason))
  const { signal } = guard
  await open().forceRelease(lock, guard.token)
  await until(() => signal.aborted, 'the signal aborts')
  expect(signal.reason).toBeInstanceOf(LostError)
  expect(signal.reason).toMatchObject({ code: 'ERR_LEASEHOLD_LOST', reason: 'KEY_DELETED' })
  expect(guard.lostReason).toBe('KEY_DELETED')
  expect(reasons).toEqual(['KEY_DELETED'])
  expect(await failure(guard.release())).toMatchObject({ code: 'ERR_LEASEHOLD_LOST', reason: 'KEY_DELETED' })
  expect(reasons).toEqual(['KEY_DELETED'])
})

test('a release is no loss', async () => {
  const guard = await open().acquire(name())
  const { signal } = guard
  guard.on('lost', () => expect.unreachable())
  await guard.release()
  await open().ping()
  guard.on('lost', () => expect.unreachable())
  await open().ping()
  expect(signal.aborted).toBe(false)
  expect(guard.signal.aborted).toBe(false)
  expect(guard.lostReason).toBeUndefined()
})

test('a signal that is read after the loss is aborted', async () => {
  const guard = await lose(open())
  const { signal } = guard
  expect(signal.aborted).toBe(true)
  expect(signal.reason).toMatchObject({ code: 'ERR_LEASEHOLD_LOST', reason: 'KEY_DELETED' })
  expect(guard.signal).toBe(signal)
})

test('a listener that comes late is told, each once, and whoever has left is not', async () => {
  const guard = await lose(open())
  expect(await once(guard, 'lost')).toEqual(['KEY_DELETED'])
  const heard: string[] = []
  guard.on('lost', (reason) => heard.push(`on ${reason}`))
  guard.once('lost', (reason) => heard.push(`once ${reason}`))
  guard.prependListener('lost', (reason) => heard.push(`prepended ${reason}`))
  const left = () => heard.push('left')
  guard.on('lost', left).off('lost', left)
  expect(heard).toEqual([])
  await until(() => heard.length >= 3, 'they are told')
  await open().ping()
  expect(heard.toSorted()).toEqual(['on KEY_DELETED', 'once KEY_DELETED', 'prepended KEY_DELETED'])
  expect(guard.listenerCount('lost')).toBe(2)
})

test('all listeners can be removed, and others come', async () => {
  const [client, lock] = [open(), name()]
  const guard = await client.acquire(lock)
  guard.on('lost', () => expect.unreachable())
  const { signal } = guard
  guard.removeAllListeners()
  const untold = await client.acquire(`${lock}2`)
  untold.removeAllListeners()
  const both = Promise.all([once(guard, 'lost'), once(untold, 'lost'), once(signal, 'abort')])
  await client.forceRelease(lock, guard.token)
  await client.forceRelease(`${lock}2`, untold.token)
  expect((await both).slice(0, 2)).toEqual([['KEY_DELETED'], ['KEY_DELETED']])

  client.removeAllListeners()
  const state = once(client, 'state')
  await client.close()
  expect(await state).toEqual([{ state: 'lost', reason: 'CLIENT_CLOSED' }])
})

test('what a listener throws is its own business', async () => {
  const [client, lock] = [open(), name()]
  const [guard, other] = [await client.acquire(lock), await client.acquire(`${lock}2`)]
  const thrown: unknown[] = []
  const original = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', (error) => thrown.push(error))
  guard.on('lost', () => {
    throw new Error('mine')
  })
  await client.forceRelease(lock, guard.token)
  await until(() => thrown.length === 1, 'it is thrown')
  process.removeAllListeners('uncaughtException')
  for (const listener of original) process.on('uncaughtException', listener)
  await other.release()
})

test('it is told in the context of whoever asked for it', async () => {
  const [client, lock] = [open(), name()]
  const request = new AsyncLocalStorage<string>()
  const told = await request.run('the one that acquires', async () => {
    const guard = await client.acquire(lock)
    const byEvent = new Promise((resolve) => guard.on('lost', () => resolve(request.getStore())))
    const bySignal = new Promise((resolve) => guard.signal.addEventListener('abort', () => resolve(request.getStore())))
    await request.run('another', () => client.forceRelease(lock, guard.token))
    const first = [await byEvent, await bySignal]
    const late = request.run(
      'late',
      () => new Promise((resolve) => guard.on('lost', () => resolve(request.getStore()))),
    )
    return [...first, await late]
  })
  expect(told).toEqual(['the one that acquires', 'the one that acquires', 'late'])
})

test('it is told under fake timers', async () => {
  const [client, lock] = [open(), name()]
  const guard = await client.acquire(lock)
  vi.useFakeTimers({
    toFake: ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'performance'],
  })
  try {
    const lost = new Promise((resolve) => guard.on('lost', resolve))
    await client.forceRelease(lock, guard.token)
    expect(await lost).toBe('KEY_DELETED')
    expect(guard.signal.aborted).toBe(true)
    expect(await new Promise((resolve) => guard.on('lost', resolve))).toBe('KEY_DELETED')
    // The limit of a wait is the core's, which has its own clock.
    const held = await client.acquire(lock)
    expect(await client.acquire(lock, { wait: 50 }).catch((error) => error.code)).toBe('ERR_LEASEHOLD_NOT_ACQUIRED')
    await held.release()
  } finally {
    vi.useRealTimers()
  }
})

test('timers of node:test that stand still stop nothing', async () => {
  const [client, lock] = [open(), name()]
  const guard = await client.acquire(lock)
  mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'setImmediate', 'Date'] })
  try {
    const lost = new Promise((resolve) => guard.on('lost', resolve))
    expect(await locks(client).request(lock, { steal: true }, () => 'stolen')).toBe('stolen')
    expect(await lost).toBe('KEY_DELETED')
  } finally {
    mock.timers.reset()
  }
})

/** A guard that was lost without anybody listening. */
async function lose(client: Client): Promise<Guard> {
  const guard = await client.acquire(name())
  await client.forceRelease(guard.name, guard.token)
  await until(() => !guard.held, 'it is lost')
  return guard
}
