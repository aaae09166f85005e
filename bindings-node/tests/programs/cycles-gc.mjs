/** Many cycles of a lock, in every way there is; prints what the process has before and after. */

import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from '../../dist/index.mjs'

const [endpoint, lock, count] = process.argv.slice(2)
const { native } = createRequire(import.meta.url)('../../dist/native.js')
const client = new Client(endpoint, { ttl: 30_000 })
client.on('state', () => {})

async function cycles(number) {
  for (let cycle = 0; cycle < number; cycle += 1) {
    const controller = new AbortController()
    const guard = await client.acquire(lock, { signal: controller.signal })
    if (cycle % 4 === 0) guard.on('lost', () => {})
    if (cycle % 8 === 0) guard.signal
    if (cycle % 16 === 0) {
      const waiting = client.acquire(lock, { signal: controller.signal }).catch(() => {})
      controller.abort()
      await waiting
    }
    if (cycle % 32 === 0) await client.acquire(lock, { wait: 1 }).catch(() => {})
    await guard.release()
    if (cycle % 4 === 1) await client.withLock(lock, () => {})
    if (cycle % 256 === 0) {
      const other = new Client(endpoint)
      const guard = await other.tryAcquire(`${lock}/other`)
      await other.close()
      // Collected before, it would rightly be told of as forgotten.
      if (guard?.held) throw new Error('it is held without its client')
    }
  }
}

/** What there is when nothing is under way, and what is garbage is collected: the guards, as far as there is time for it. */
async function look() {
  const until = Date.now() + 60_000
  do {
    globalThis.gc()
    // For the finalizers.
    await pause(1)
  } while (native.alive().guards > 0 && Date.now() < until)
  const status = readFileSync('/proc/self/status', 'utf8')
  // What V8 keeps in reserve comes and goes by tens of megabytes.
  const { heapTotal, heapUsed } = process.memoryUsage()
  return {
    rss: Number(/VmRSS:\s+(\d+)/.exec(status)[1]) - Math.round((heapTotal - heapUsed) / 1024),
    threads: Number(/Threads:\s+(\d+)/.exec(status)[1]),
    fds: readdirSync('/proc/self/fd').length,
    ...native.alive(),
  }
}

await cycles(Number(count) / 10)
const before = await look()
await cycles(Number(count))
let after = await look()
// What the allocator has not given back yet comes and goes, by megabytes where the machine is busy; what has leaked stays.
for (let time = 0; time < 5 && after.rss > before.rss + 8 * 1024; time += 1) {
  await cycles(Number(count) / 10)
  const again = await look()
  if (again.rss < after.rss) after = again
}
await client.close()
console.log(JSON.stringify({ before, after }))
