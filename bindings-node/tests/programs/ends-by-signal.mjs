/** Holds locks by two clients and is told to end, alone or with a listener of its own. */

import { once } from 'node:events'
import { Client } from '../../dist/index.mjs'

const [endpoint, lock, way] = process.argv.slice(2)
const clients = [
  new Client(endpoint, { ttl: 60_000, exitTimeout: 0, closeOnSignal: true }),
  new Client(endpoint, { ttl: 60_000, exitTimeout: 0, closeOnSignal: ['SIGTERM'] }),
]
// One that was closed before has nothing to do with it any more.
await new Client(endpoint, { closeOnSignal: true }).close()
const guards = await Promise.all(clients.map((client, index) => client.acquire(`${lock}/${index}`)))
console.log('held')
if (way === 'listened') {
  process.on('SIGTERM', async () => {
    const [reason] = await once(guards[1], 'lost')
    console.log(reason)
    process.exitCode = 7
    clearInterval(alive)
  })
}
const alive = setInterval(() => {}, 60_000)
process.kill(process.pid, 'SIGTERM')
