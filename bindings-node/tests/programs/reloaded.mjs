/** Loads the package many times, as watching test runners do; each copy holds a lock when the program falls off its end. */

import { createRequire } from 'node:module'

const [endpoint, lock, count] = process.argv.slice(2)
const require = createRequire(import.meta.url)
const entry = require.resolve('../../dist/index.js')
const seen = new Set()
// Collected, they would rightly be warned about.
globalThis.guards = []
for (let copy = 0; copy < Number(count); copy += 1) {
  for (const path of Object.keys(require.cache)) if (!path.endsWith('.node')) delete require.cache[path]
  const { Client } = require(entry)
  seen.add(Client)
  const client = new Client(endpoint, { ttl: 60_000, exitTimeout: 60_000 })
  globalThis.guards.push(await client.acquire(`${lock}/${copy}`))
}
console.log(seen.size)
