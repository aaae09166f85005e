/**
 * The benchmark's worker in Node: `--endpoint URL --mode async`. Prints `ready`; for each line `N` on stdin it acquires and
 * releases a lock of its own N times and prints how many nanoseconds that took. Ends with its input.
 */

import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { Client } from '../../../../bindings-node/dist/index.mjs'

const { values } = parseArgs({ options: { endpoint: { type: 'string' }, mode: { type: 'string', default: 'async' } } })
if (values.endpoint === undefined || values.mode !== 'async') {
  console.error('usage: run --endpoint URL --mode async (Node has no blocking form)')
  process.exit(2)
}

const client = new Client(values.endpoint, { ttl: 30_000 })
const name = `/bench/node/${process.pid}`

async function cycles(count) {
  const begun = process.hrtime.bigint()
  for (let cycle = 0; cycle < count; cycle += 1) {
    const guard = await client.acquire(name)
    await guard.release()
  }
  return process.hrtime.bigint() - begun
}

await cycles(1)
console.log('ready')
for await (const line of createInterface({ input: process.stdin })) {
  console.log(String(await cycles(Number(line))))
}
await client.close()
