/** Terminates workers in the middle of acquires, and ends others in good order; then lists what is left. */

import { once } from 'node:events'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { Client } from '../../dist/index.mjs'

async function main() {
  const [endpoint, lock, count] = process.argv.slice(2)
  const client = new Client(endpoint, { ttl: 60_000 })
  const guard = await client.acquire(lock)
  for (let index = 0; index < Number(count); index += 1) {
    const worker = new Worker(new URL(import.meta.url), { workerData: { endpoint, lock } })
    // It holds one lock and waits for the other by now, or is about to.
    await once(worker, 'message')
    if (index % 2 === 0) {
      while (!(await client.queue(lock)).some((contender) => contender.token !== guard.token)) {}
    }
    await worker.terminate()
  }
  const until = Date.now() + 60_000
  let left
  do {
    left = [...(await client.queue(lock)), ...(await client.queue(`${lock}-held`))]
  } while (left.length > 1 && Date.now() < until)
  console.log(JSON.stringify({ left: left.filter((contender) => contender.token !== guard.token).length }))
  await guard.release()
}

async function worker() {
  const { endpoint, lock } = workerData
  const client = new Client(endpoint, { ttl: 60_000 })
  await client.acquire(`${lock}-held`)
  client.acquire(lock).catch(() => {})
  parentPort.postMessage('busy')
}

await (isMainThread ? main() : worker())
