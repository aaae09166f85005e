/** Takes a lock, listens to everything there is, and falls off its end: the process ends, and the lock is free. */

import { Client } from '../../dist/index.mjs'

const [endpoint, lock, exitTimeout] = process.argv.slice(2)
const client = new Client(endpoint, { ttl: 60_000, ...(exitTimeout && { exitTimeout: Number(exitTimeout) }) })
client.on('state', () => {})
const guard = await client.acquire(lock)
guard.on('lost', () => {})
guard.signal
console.log(guard.key)
