/**
 * Takes a lock, listens to everything there is, and falls off its end, when its input has ended if it is to wait for that: the
 * process ends, and the lock is free.
 */

import { once } from 'node:events'
import { Client } from '../../dist/index.mjs'

const [endpoint, lock, exitTimeout, waits] = process.argv.slice(2)
// An answer may take longer than any test: what bounds the exit is `exitTimeout`.
const client = new Client(endpoint, { ttl: 60_000, requestTimeout: 600_000, exitTimeout: Number(exitTimeout) })
client.on('state', () => {})
const guard = await client.acquire(lock)
guard.on('lost', () => {})
guard.signal
console.log(guard.key)
if (waits) await once(process.stdin.resume(), 'end')
