/**
 * The conformance driver of the Node API: one JSON request a line on stdin, replies and events on stdout.
 *
 * It does no locking, waiting or retrying of its own. To cancel a request is to abort its signal. At the end of the input it
 * ends at once and releases nothing.
 */

import { readFileSync, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Client, LeaseholdError } from '../../../../bindings-node/dist/index.mjs'
import { malformed, Refusal, Request, unsupported } from './request.mjs'

const manifest = JSON.parse(readFileSync(new URL('../../../../bindings-node/package.json', import.meta.url), 'utf8'))
const clients = new Map()
const holds = new Map()
/** What cancels a request that was not answered at once, by the request's id. */
const aborts = new Map()

const operations = {
  open(request) {
    const options = {
      ttl: request.millis('ttl_ms'),
      namespace: request.text('namespace'),
      user: request.text('user'),
      password: request.text('password'),
      caFile: request.text('ca_file'),
      certFile: request.text('cert_file'),
      keyFile: request.text('key_file'),
      connectTimeout: request.millis('connect_timeout_ms'),
      requestTimeout: request.millis('request_timeout_ms'),
      identity: request.text('identity'),
      // The end of the input is a crash.
      exitTimeout: 0,
    }
    clients.set(request.need.text('client'), new Client(request.need.texts('endpoints'), options))
  },

  async ping(request, signal) {
    await client(request).ping({ signal })
  },

  async close(request) {
    await client(request).close()
  },

  async acquire(request, signal) {
    const kind = request.text('kind') ?? 'mutex'
    if (kind !== 'mutex') throw unsupported(`there is no lock of the kind ${kind}`)
    const via = request.oneOf('via', ['async', 'sync']) ?? 'async'
    if (via === 'sync') throw unsupported('Node has no blocking form')
    const mode = request.oneOf('mode', ['wait', 'try']) ?? 'wait'
    const [name, lock] = [request.need.text('hold'), request.need.text('lock')]
    const tryOptions = { ttl: request.millis('ttl_ms'), renew: request.flag('renew'), signal }
    const options = { ...tryOptions, wait: request.millis('wait_ms'), requeue: request.flag('requeue') }
    const guard =
      mode === 'try' ? await client(request).tryAcquire(lock, tryOptions) : await client(request).acquire(lock, options)
    if (guard === null) throw new Refusal('NOT_ACQUIRED', 'somebody holds it')
    holds.set(name, guard)
    const { key, token, sequence, lease, remaining } = guard
    return { key, token: Number(token), sequence: Number(sequence), lease, remaining_ms: remaining }
  },

  cancel(request) {
    const target = request.need.field('target')
    const abort = aborts.get(target)
    if (abort === undefined) throw malformed(`no request ${target} was made, or it was answered at once`)
    abort.abort()
  },

  check(request) {
    const guard = hold(request)
    return { held: guard.held, remaining_ms: guard.remaining }
  },

  on_lost(request) {
    const name = request.need.text('hold')
    hold(request).on('lost', (reason) => write({ event: 'lost', hold: name, reason, mono_ns: monotonic() }))
  },

  async release(request) {
    await hold(request).release()
  },

  async guarded_put(request, signal) {
    await hold(request).put(request.need.text('key'), request.need.text('value'), { signal })
  },

  async extend(request, signal) {
    await hold(request).extend(request.need.millis('ttl_ms'), { signal })
  },

  async queue(request, signal) {
    const contenders = await client(request).queue(request.need.text('lock'), { signal })
    const line = ({ key, token, lease = null, identity = null, foreign }) => {
      return { key, token: Number(token), lease, identity, foreign }
    }
    return { contenders: contenders.map(line) }
  },

  async force_release(request, signal) {
    await client(request).forceRelease(request.need.text('lock'), request.need.token('token'), { signal })
  },

  version() {
    return { language: 'node', version: manifest.version }
  },
}

function client(request) {
  const name = request.need.text('client')
  const found = clients.get(name)
  if (found === undefined) throw malformed(`no client ${name} was opened`)
  return found
}

function hold(request) {
  const found = holds.get(request.need.text('hold'))
  if (found === undefined) throw new Refusal('NOT_HELD', 'there is no such hold')
  return found
}

async function answer(line) {
  let id = null
  try {
    const request = Request.parse(line)
    id = request.id
    const name = request.need.text('op')
    if (!Object.hasOwn(operations, name)) throw unsupported(`the Node driver knows no operation ${name}`)
    const abort = new AbortController()
    aborts.set(id, abort)
    const fields = await operations[name](request, abort.signal)
    reply(id, { ok: true, ...fields })
  } catch (error) {
    reply(id, { ok: false, ...refusal(error) })
  }
}

function refusal(error) {
  if (error instanceof Refusal) return { code: error.code, message: error.message }
  if (error instanceof LeaseholdError) {
    return { code: error.code.replace('ERR_LEASEHOLD_', ''), message: error.message }
  }
  if (error.name === 'AbortError') return { code: 'CANCELLED', message: 'its signal was aborted' }
  return { code: 'INTERNAL', message: String(error.stack) }
}

function reply(id, fields) {
  // Read before anything else: it dates what the API answered, not what it takes to say so.
  const mono_ns = monotonic()
  write({ id, ...fields, mono_ns })
}

function write(message) {
  const bytes = Buffer.from(`${JSON.stringify(message)}\n`)
  // A pipe may take a long line in parts.
  for (let written = 0; written < bytes.length; ) written += writeSync(1, bytes, written)
}

/** CLOCK_MONOTONIC in nanoseconds, the same for every process of this machine. */
function monotonic() {
  return Number(process.hrtime.bigint())
}

const input = createInterface({ input: process.stdin })
input.on('line', answer)
input.on('close', () => process.exit(0))
