/** The contender in Node; see `tests/demo/src/protocol.rs` for what it is told and what it says. */

import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Client, LeaseholdError } from '../../../bindings-node/dist/index.mjs'

const [endpoints, lock, identity, counter, ttl] = ['ENDPOINTS', 'LOCK', 'IDENTITY', 'COUNTER', 'TTL'].map((name) => {
  const value = process.env[`LEASEHOLD_DEMO_${name}`]
  if (value === undefined) throw new Error(`LEASEHOLD_DEMO_${name} is not set; the demo sets it for its contenders`)
  return value
})

const client = new Client(endpoints, { ttl: Number(ttl) * 1_000, identity })
let guard
let value = 0n

const commands = {
  async acquire() {
    say({ event: 'waiting' })
    guard = await client.acquire(lock)
    say({ event: 'acquired', token: Number(guard.token), key: guard.key })
  },

  async read() {
    const { values } = await guard.txn([{ get: counter }])
    value = BigInt(values[0] ?? 0)
    say({ event: 'read', value: Number(value) })
  },

  async write() {
    const { held } = guard
    try {
      await guard.put(counter, String(value + 1n))
      say({ event: 'counted', value: Number(value + 1n) })
    } catch (error) {
      if (!(error instanceof LeaseholdError)) throw error
      const code = error.code.replace('ERR_LEASEHOLD_', '')
      say({ event: 'refused', held, error: code, reason: error.reason ?? null })
    }
  },

  async release() {
    await guard.release()
    say({ event: 'released' })
  },
}

function say(event) {
  writeSync(1, `${JSON.stringify(event)}\n`)
}

try {
  for await (const line of createInterface({ input: process.stdin })) await commands[line.trim()]()
  await client.close()
} catch (error) {
  say({ event: 'failed', error: String(error) })
  process.exitCode = 1
}
