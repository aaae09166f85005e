/** Forgets a guard; after it was collected the lock is still held, until its client is closed. */

import { subscribe } from 'node:diagnostics_channel'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from '../../dist/index.mjs'

const [endpoint, lock] = process.argv.slice(2)
let warned = false
subscribe('leasehold:log', ({ level, message }) => {
  warned ||= level === 'warn' && message.includes('garbage collected') && message.includes(lock)
})
const client = new Client(endpoint)
const other = new Client(endpoint)
await client.acquire(lock)
for (let time = 0; time < 100 && !warned; time += 1) {
  globalThis.gc()
  await pause(10)
}
const queued = (await other.queue(lock)).length
await client.close()
console.log(JSON.stringify({ queued, warned, afterClose: (await other.queue(lock)).length }))
await other.close()
