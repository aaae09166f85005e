/** Holds locks by two clients and is told to end: alone, with a listener of its own, by two copies of the package, or beside npm's signal-exit. */

import { once } from 'node:events'
import { createRequire } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from '../../dist/index.mjs'

const [endpoint, lock, way] = process.argv.slice(2)
if (way === 'once') {
  // As servers are told to end: nobody listens any more while they serve their last requests.
  process.once('SIGTERM', async () => {
    const [reason] = await once(guards[1], 'lost')
    // Whoever is to end the process by the signal has every chance to.
    for (let turn = 0; turn < 50; turn += 1) await pause(10)
    console.log(reason)
    process.exitCode = 7
    clearInterval(alive)
  })
}
if (way === 'undecided') {
  const { onExit } = await import('signal-exit')
  onExit((code, signal) => console.log('at the end', code, signal))
}
if (way === 'copies') {
  const require = createRequire(import.meta.url)
  const dist = require.resolve('../../dist/index.js').replace(/index\.js$/, '')
  for (const path of Object.keys(require.cache)) if (path.startsWith(dist)) delete require.cache[path]
  const copy = require('../../dist/index.js')
  if (copy.Client === Client) throw new Error('it is the same copy')
  const client = new copy.Client(endpoint, { ttl: 60_000, exitTimeout: 0, closeOnSignal: true })
  await client.acquire(`${lock}/copy`)
}
// An answer may take longer than any test.
const options = { ttl: 600_000, requestTimeout: 600_000, exitTimeout: 0 }
const clients = [
  new Client(endpoint, { ...options, closeOnSignal: true }),
  new Client(endpoint, { ...options, closeOnSignal: ['SIGTERM'] }),
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
if (way !== 'twice' && way !== 'undecided') process.kill(process.pid, 'SIGTERM')
