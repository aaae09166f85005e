/** AbortSignal: whenever it comes, the promise rejects with its reason and nothing is left in the queue. */

import { getEventListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { failure, keys, name, open, until } from './support'

test('an aborted signal starts nothing', async () => {
  const [client, lock] = [open(), name()]
  const mine = new Error('mine')
  expect(await failure(client.acquire(lock, { signal: AbortSignal.abort(mine) }))).toBe(mine)
  const error = await failure(client.withLock(lock, { signal: AbortSignal.abort() }, () => expect.unreachable()))
  expect(error).toMatchObject({ name: 'AbortError' })
  expect(await keys(lock)).toEqual([])
})

test('a waiter that is aborted leaves the queue before it rejects', async () => {
  const [client, lock] = [open(), name()]
  const guard = await client.acquire(lock)
  const controller = new AbortController()
  let heard = 0
  controller.signal.onabort = () => {
    heard += 1
  }
  const mine = { anything: 'goes' }
  const waiting = failure(client.acquire(lock, { signal: controller.signal }))
  await until(async () => (await client.queue(lock)).length === 2, 'it queues')
  expect(getEventListeners(controller.signal, 'abort')).toHaveLength(2)
  controller.abort(mine)
  expect(await waiting).toBe(mine)
  expect(heard).toBe(1)
  expect(await keys(lock)).toEqual([guard.key])
  expect(await failure(client.acquire(lock, { signal: AbortSignal.timeout(50) }))).toMatchObject({
    name: 'TimeoutError',
  })
  expect(await keys(lock)).toEqual([guard.key])
})

test('one signal for hundreds of operations has one listener of ours', async () => {
  const [client, lock] = [open(), name()]
  const guard = await client.acquire(lock)
  const controller = new AbortController()
  const { signal } = controller
  const waiting = Array.from({ length: 20 }, () => client.acquire(lock, { signal }).catch((error) => error))
  const observer = client.election(`${lock}/election`).observe({ signal })
  await observer.next()
  await until(async () => (await client.queue(lock)).length === 21, 'they queue')
  // Each more than ten is a warning of a leak.
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  await observer.return()
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  controller.abort(new Error('mine'))
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([signal.reason]))
  expect(getEventListeners(signal, 'abort')).toEqual([])
  expect(await keys(lock)).toEqual([guard.key])
})

test('a signal is left as it was found', async () => {
  const [client, lock] = [open(), name()]
  const controller = new AbortController()
  const guard = await client.acquire(lock, { signal: controller.signal })
  await client.queue(lock, { signal: controller.signal })
  await client.ping({ signal: controller.signal })
  expect(getEventListeners(controller.signal, 'abort')).toEqual([])
  controller.abort()
  expect(guard.held).toBe(true)
})

test('aborted after 0 to 3 ms, 300 times', async () => {
  const [client, lock] = [open(), name()]
  const outcomes = { acquired: 0, aborted: 0 }
  for (let time = 0; time < 300; time += 1) {
    const controller = new AbortController()
    const acquiring = client.acquire(lock, { signal: controller.signal })
    const settled = acquiring.then(
      async (guard) => {
        outcomes.acquired += 1
        await guard.release()
      },
      (error) => {
        outcomes.aborted += 1
        expect(error).toBe(controller.signal.reason)
      },
    )
    if (time % 4 > 0) await pause(time % 4)
    controller.abort()
    await settled
  }
  expect(outcomes.acquired + outcomes.aborted).toBe(300)
  expect(outcomes.aborted).toBeGreaterThan(50)
  expect(await keys(lock)).toEqual([])
  console.log(outcomes)
})
