/**
 * The conformance driver of the Node API: one JSON request a line on stdin, replies and events on stdout.
 *
 * It does no locking, waiting or retrying of its own. To cancel a request is to abort its signal. At the end of the input it
 * ends at once and releases nothing.
 */

import { readFileSync, writeSync } from 'node:fs'
import { Client, LeaseholdError } from '../../../../bindings-node/dist/index.mjs'
import { malformed, Refusal, Request, unsupported } from './request.mjs'

const manifest = JSON.parse(readFileSync(new URL('../../../../bindings-node/package.json', import.meta.url), 'utf8'))
const clients = new Map()
const holds = new Map()
/** What had a name that has been given to something else: it goes on. */
const former = []
/** What observes elections, by the names that the runner chose. */
const watches = new Map()
/** What cancels a request, by its id as JSON. */
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
    const name = request.need.text('client')
    const opened = new Client(request.need.texts('endpoints'), options)
    former.push(clients.get(name))
    clients.set(name, opened)
  },

  async ping(request, signal) {
    await client(request).ping({ signal })
  },

  async close(request) {
    await client(request).close()
  },

  async acquire(request, signal) {
    const via = request.oneOf('via', ['async', 'sync']) ?? 'async'
    if (via === 'sync') throw unsupported('Node has no blocking form')
    const mode = request.oneOf('mode', ['wait', 'try']) ?? 'wait'
    const [name, claim, names] = [request.need.text('hold'), request.claim(), request.names()]
    const sharing = { localFirst: request.localFirst(), linger: request.millis('linger_ms') }
    const tryOptions = { ...claim, ...sharing, ttl: request.millis('ttl_ms'), renew: request.flag('renew'), signal }
    const options = { ...tryOptions, wait: request.millis('wait_ms'), requeue: request.flag('requeue') }
    const guard =
      mode === 'try'
        ? await client(request).tryAcquire(names, tryOptions)
        : await client(request).acquire(names, options)
    if (guard === null) throw new Refusal('NOT_ACQUIRED', 'somebody holds it')
    return { ...keep(name, guard), ...(Array.isArray(names) && { keys: guard.keys }) }
  },

  async campaign(request, signal) {
    const [name, value] = [request.need.text('hold'), request.need.text('value')]
    const election = client(request).election(request.need.text('election'))
    return keep(name, await election.campaign(value, { wait: request.millis('wait_ms'), signal }))
  },

  async proclaim(request, signal) {
    const value = request.need.text('value')
    const guard = hold(request)
    // A hold of a lock has nothing to proclaim by.
    if (guard.proclaim === undefined) throw new Refusal('INVALID_ARGUMENT', 'this hold is no lead of an election')
    await guard.proclaim(value, { signal })
  },

  async leader(request, signal) {
    const election = client(request).election(request.need.text('election'))
    return leader(await election.leader({ signal }))
  },

  async observe(request) {
    const name = request.need.text('watch')
    const observer = client(request).election(request.need.text('election')).observe()
    former.push(watches.get(name))
    watches.set(name, observer)
    const first = await observer.next()
    // Behind the reply.
    setImmediate(async () => {
      const tell = (seen) => write({ event: 'leader', watch: name, ...leader(seen), mono_ns: monotonic() })
      if (!first.done) tell(first.value)
      try {
        for await (const seen of observer) tell(seen)
      } catch {
        // It has no more to tell.
      }
    })
  },

  async unobserve(request) {
    const name = request.need.text('watch')
    const observer = watches.get(name)
    if (observer === undefined) throw malformed(`nobody observes as ${name}`)
    watches.delete(name)
    await observer.return()
  },

  metrics(request) {
    return { text: client(request).metrics().text }
  },

  cancel(request) {
    const target = JSON.stringify(request.need.field('target'))
    const abort = aborts.get(target)
    if (abort === undefined) throw malformed(`no request ${target} was made`)
    // Where it is answered already, this comes too late, and does nothing.
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

  on_state(request) {
    const name = request.need.text('client')
    client(request).on('state', ({ state }) =>
      write({ event: 'state', client: name, state: state.toUpperCase(), mono_ns: monotonic() }),
    )
  },

  async release(request) {
    await hold(request).release()
  },

  async guarded_put(request, signal) {
    const [key, value] = [request.need.text('key'), request.need.text('value')]
    await hold(request).put(key, value, { signal })
  },

  async guarded_delete(request, signal) {
    const key = request.need.text('key')
    await hold(request).delete(key, { signal })
    return { values: [] }
  },

  async guarded_txn(request, signal) {
    const puts = Object.entries(request.pairs('puts') ?? {}).map(([put, value]) => ({ put, value }))
    const deletes = (request.texts('deletes') ?? []).map((key) => ({ delete: key }))
    const gets = (request.texts('gets') ?? []).map((get) => ({ get }))
    const { values } = await hold(request).txn([...puts, ...deletes, ...gets], { signal })
    return { values: values.map((value) => value?.toString() ?? null) }
  },

  async extend(request, signal) {
    const span = request.need.millis('ttl_ms')
    await hold(request).extend(span, { signal })
  },

  async queue(request, signal) {
    const lock = request.need.text('lock')
    const contenders = await client(request).queue(lock, { signal })
    const line = ({ key, token, lease = null, identity = null, foreign }) => {
      return { key, token: Number(token), lease, identity, foreign }
    }
    return { contenders: contenders.map(line) }
  },

  async force_release(request, signal) {
    const [lock, token] = [request.need.text('lock'), request.need.token('token')]
    await client(request).forceRelease(lock, token, { signal })
  },

  version() {
    return { language: 'node', version: manifest.version }
  },
}

/** Keeps a guard under its name; what is said about it. */
function keep(name, guard) {
  former.push(holds.get(name))
  holds.set(name, guard)
  const { key, token, sequence, lease, remaining } = guard
  return { key, token: Number(token), sequence: Number(sequence), lease, remaining_ms: remaining }
}

/** Who leads, for a reply or an event. */
function leader(leader) {
  return { value: leader?.value.toString() ?? null, token: leader === null ? null : Number(leader.token) }
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
    const abort = new AbortController()
    aborts.set(JSON.stringify(id), abort)
    const name = request.need.text('op')
    if (!Object.hasOwn(operations, name)) throw unsupported(`the Node driver knows no operation ${name}`)
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

// Not by readline: to that, U+2028 ends a line, too.
const parts = []
process.stdin.on('data', (bytes) => {
  let begin = 0
  for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, begin)) {
    answer(Buffer.concat([...parts.splice(0), bytes.subarray(begin, end)]))
    begin = end + 1
  }
  parts.push(bytes.subarray(begin))
})
process.stdin.on('end', () => process.exit(0))
