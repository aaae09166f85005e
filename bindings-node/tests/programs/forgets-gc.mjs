/**
 * Forgets guards, each used in another way; after they were collected their locks are still held, until their client is
 * closed. Says who was warned of, what was heard of the losses then, and what the queues had before and after.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { Client } from '../../dist/index.mjs'

const [endpoint, lock] = process.argv.slice(2)
const warnings = []
const heard = []
process.on('warning', ({ code, name, message }) => warnings.push({ code, name, message }))
const ways = {
  plain: () => {},
  signal: (guard) => {
    guard.signal.addEventListener('abort', () => heard.push('signal'))
  },
  on: (guard) => {
    guard.on('lost', () => heard.push('on'))
  },
  once: (guard) => {
    guard.once('lost', () => heard.push('once'))
  },
  late: (guard) => {
    guard.signal
    guard.on('lost', () => heard.push('late'))
    guard.removeAllListeners()
  },
}
const client = new Client(endpoint)
const other = new Client(endpoint)
for (const [way, use] of Object.entries(ways)) use(await client.acquire(`${lock}/${way}`))
// One that is released is not forgotten.
await (await client.acquire(`${lock}/released`)).release()
for (let time = 0; time < 6_000 && warnings.length < Object.keys(ways).length; time += 1) {
  globalThis.gc()
  await pause(10)
}
globalThis.gc()
await pause(50)
const warned = Object.keys(ways).filter(
  (way) => warnings.filter(({ message }) => message.includes(`${lock}/${way}"`)).length === 1,
)
const queued = async () => {
  const queues = await Promise.all(Object.keys(ways).map((way) => other.queue(`${lock}/${way}`)))
  return queues.flat().length
}
const before = await queued()
await client.close()
for (let time = 0; time < 6_000 && heard.length < 3; time += 1) await pause(10)
console.log(
  JSON.stringify({
    warned,
    codes: [...new Set(warnings.map(({ code }) => code))],
    count: warnings.length,
    heard: heard.sort(),
    before,
    after: await queued(),
  }),
)
await other.close()
