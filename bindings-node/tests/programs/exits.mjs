/** Ends, in one of several ways, with thousands of operations that were not answered. */

import { Client } from '../../dist/index.mjs'

const [endpoint, lock, way, count] = process.argv.slice(2)
const client = new Client(endpoint, { ttl: 2_000 })
const held = await client.acquire(`${lock}/held`)
const swallow = () => {}
for (let index = 0; index < Number(count); index += 1) {
  const operation = [
    () => client.acquire(`${lock}/held`),
    () => client.acquire(`${lock}/${index % 50}`),
    () => client.ping(),
    () => client.queue(`${lock}/empty`),
    () => held.put(`${lock}-data`, 'x'),
  ][index % 5]
  operation().catch(swallow)
}
const end = {
  exit: () => process.exit(0),
  throw: () => {
    throw new Error('on purpose')
  },
  reject: () => Promise.reject(new Error('on purpose')),
}
setImmediate(() => {
  console.log('ends')
  end[way]()
})
