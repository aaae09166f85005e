/** `leasehold/testing`, as users' own tests use it. */

import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { expect, inject, test } from 'vitest'
import { Client } from '../dist/index.mjs'
import { loseLock, startEtcd } from '../dist/testing.mjs'
import { code, failure } from './support'

test('an etcd of its own, and locks lost on demand', async () => {
  const etcd = await startEtcd({ binary: inject('etcd'), startTimeout: 60_000 })
  const client = new Client(etcd.endpoint)
  const [first, second] = await Promise.all([client.acquire('/a'), client.acquire('/b')])
  await loseLock(client, first)
  expect([first.held, first.lostReason, second.held]).toEqual([false, 'KEY_DELETED', true])
  const lost = once(second, 'lost')
  await etcd.revokeLease(second)
  expect(await lost).toEqual(['LEASE_REVOKED'])
  expect(second.lostReason).toBe('LEASE_REVOKED')
  expect(await code(loseLock(client, second))).toBe('INVALID_ARGUMENT')
  await client.close()
  await etcd.stop()
  await etcd.stop()
  expect(existsSync(`/proc/${etcd.pid}`)).toBe(false)
})

test('a lock in memory is lost on demand, too', async () => {
  const client = new Client('memory://testing')
  const guard = await client.acquire('/a')
  await loseLock(client, guard)
  expect(guard.lostReason).toBe('KEY_DELETED')
  await client.close()
})

test('what cannot be started is said so', async () => {
  expect(String(await failure(startEtcd({ binary: 'no-such-etcd' })))).toContain('could not start no-such-etcd')
  expect(String(await failure(startEtcd({ binary: 'false' })))).toContain('ended at once')
})
