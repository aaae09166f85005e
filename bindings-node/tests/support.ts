/** What tests share: clients that are closed, names of their own, keys as etcd has them, and programs that are run. */

import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, inject } from 'vitest'
import { Client, type ClientOptions, LeaseholdError } from '../dist/index.mjs'

export const endpoint: string = inject('endpoint')
export const programs = join(import.meta.dirname, 'programs')

const opened: Client[] = []
let names = 0

/** A client of the real etcd, closed after the test. */
export function open(options: ClientOptions = {}): Client {
  const client = new Client(endpoint, { ttl: 60_000, ...options })
  opened.push(client)
  return client
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((client) => client.close()))
})

/** A name that no other test uses. */
export function name(): string {
  names += 1
  return `/node/${process.pid}/${names}`
}

/** The keys below a prefix, as etcd's own tool sees them. */
export async function keys(prefix: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)(inject('etcdctl'), ['get', '--prefix', '--keys-only', prefix], {
    env: { ...process.env, ETCDCTL_API: '3', ETCDCTL_ENDPOINTS: endpoint },
  })
  return stdout.split('\n').filter((line) => line !== '')
}

/** Looks until it is so; fails after a minute, which no busy machine needs. */
export async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = Date.now() + 60_000
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`${what}: not within a minute`)
    await pause(10)
  }
}

/** Stops a process, and waits until each of its threads stands still: until then an etcd still answers. */
export async function freeze(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  const threads = `/proc/${pid}/task`
  const stands = (thread: string) => /\) T [^)]*$/.test(readFileSync(`${threads}/${thread}/stat`, 'utf8'))
  await until(() => readdirSync(threads).every(stands), 'it stands still')
}

/** What a program did. */
export interface Ran {
  code: number | null
  signal: string | null
  /** From its last word to its end. */
  lingered: number
  out: string
  errors: string
}

/** Runs a program of `tests/programs` to its end. `heard` is told each piece of its output. */
export function run(
  program: string,
  args: string[] = [],
  options: { endpoint?: string; heard?: (text: string, child: ChildProcessWithoutNullStreams) => unknown } = {},
): Promise<Ran> {
  const words = ['--expose-gc', join(programs, program), options.endpoint ?? endpoint, ...args]
  const child = spawn(process.execPath, words, { timeout: 600_000 })
  let [out, errors, spoken] = ['', '', performance.now()]
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
    spoken = performance.now()
    options.heard?.(text, child)
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => {
      resolve({ code, signal, lingered: performance.now() - spoken, out, errors })
    })
  })
}

/** The error that a promise rejects with. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it resolved')
}

/** The name of leasehold's error that a promise rejects with. */
export async function code(promise: Promise<unknown>): Promise<string> {
  const error = await failure(promise)
  if (!(error instanceof LeaseholdError)) throw error
  return error.code.replace('ERR_LEASEHOLD_', '')
}
