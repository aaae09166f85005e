/**
 * Uncontended acquire and release, side by side: leasehold, npm's etcd3 on the same etcd, npm's redlock on one local Redis.
 * Interleaved rounds; what counts is the ratio of medians to leasehold. Argument: the number of rounds.
 *
 * They do not promise the same: etcd3 makes a lease for each lock, renews it, and has no queue (a lock that is taken is an
 * error); redlock with one Redis loses its locks with that Redis, which keeps them in memory only.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Etcd3 } from 'etcd3'
import { Redis } from 'ioredis'
import { default as Redlock } from 'redlock'
import { Client } from '../../../../bindings-node/dist/index.mjs'

const ROUNDS = Number(process.argv[2] ?? 20)
const CYCLES = 50
const TTL = 30_000

const children = []
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

async function etcd(storage) {
  const child = spawn(process.env.LEASEHOLD_HARNESS, ['--storage', storage], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  const [line] = await once(createInterface({ input: child.stdout }), 'line')
  return JSON.parse(line)
}

async function redis() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  await once(server.close(), 'close')
  const words = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const program = fileURLToPath(new URL('../../../../scripts/redis.sh', import.meta.url))
  children.push(spawn(program, words, { stdio: ['ignore', 'ignore', 'inherit'] }))
  const client = new Redis({ port, maxRetriesPerRequest: null })
  await client.ping()
  return client
}

function contestants(endpoint, redisClient) {
  const leasehold = new Client(endpoint, { ttl: TTL })
  const etcd3 = new Etcd3({ hosts: endpoint })
  const redlock = new Redlock([redisClient], { retryCount: 0 })
  return [
    {
      name: 'leasehold',
      cycle: async () => (await leasehold.acquire('/compare/leasehold')).release(),
      close: () => leasehold.close(),
    },
    {
      name: 'etcd3',
      cycle: async () =>
        (
          await etcd3
            .lock('/compare/etcd3')
            .ttl(TTL / 1_000)
            .acquire()
        ).release(),
      close: () => etcd3.close(),
    },
    {
      name: 'redlock',
      cycle: async () => (await redlock.acquire(['/compare/redlock'], TTL)).release(),
      close: () => {},
    },
  ]
}

async function time({ cycle }, cycles) {
  const begun = process.hrtime.bigint()
  for (let count = 0; count < cycles; count += 1) await cycle()
  return Number(process.hrtime.bigint() - begun) / cycles / 1e3
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]

const redisClient = await redis()
for (const storage of ['disk', 'memory']) {
  const { endpoints, version } = await etcd(storage)
  const all = contestants(endpoints[0], redisClient)
  for (const contestant of all) {
    await time(contestant, CYCLES)
    contestant.times = []
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    // Everybody comes after everybody else in turn.
    for (let turn = 0; turn < all.length; turn += 1) {
      const contestant = all[(turn + round) % all.length]
      contestant.times.push(await time(contestant, CYCLES))
    }
  }
  const base = all[0].times
  console.log(`\n== etcd ${version}, data on ${storage}; ${ROUNDS} interleaved rounds of ${CYCLES}`)
  for (const { name, times, close } of all) {
    const ratio = median(times.map((taken, round) => taken / base[round]))
    console.log(`compare     ${name.padEnd(10)} ${median(times).toFixed(0).padStart(6)} µs   ${ratio.toFixed(2)} x`)
    await close()
  }
}
process.exit(0)
