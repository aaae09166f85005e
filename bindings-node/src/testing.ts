/**
 * For users' own tests: a real etcd from the `PATH` for as long as they run, and locks that are lost on demand.
 *
 * Tests that need no server use a client of `memory://name` instead.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Client } from './client'
import { invalidArgument } from './errors'
import type { Guard } from './guard'
import { Port } from './ports'
import { pause } from './soon'

/** Options of {@link startEtcd}. */
export interface EtcdOptions {
  /** The program. Default `etcd`, from the `PATH`. */
  binary?: string
  /** How long it may take to serve requests, in milliseconds. Default 10,000. */
  startTimeout?: number
}

/** What it said last, kept for the message of a failure. */
const KEPT = 4_000

/** Any number does, in milliseconds. */
const KEPT_ALIVE = 60_000

/** The pause before it looks again whether it serves requests, in milliseconds. */
const LOOK_AGAIN = 20

/**
 * Starts an etcd on loopback, with ports of its own and its data in a temporary directory. It ends with
 * {@link Etcd.stop}, and with the process at the latest.
 *
 * @throws An `Error` that says what is missing, if there is no such program or it does not serve requests in time.
 */
export async function startEtcd(options: EtcdOptions = {}): Promise<Etcd> {
  const { binary = 'etcd', startTimeout = 10_000 } = options
  const directory = await mkdtemp(join(tmpdir(), 'leasehold-etcd-'))
  const ports = [await Port.reserve(), await Port.reserve()]
  const [clients, peers] = ports.map((port) => `http://127.0.0.1:${port.number}`) as [string, string]
  const child = spawn(
    binary,
    [
      ['--name', 'default'],
      ['--data-dir', directory],
      ['--listen-client-urls', clients],
      ['--advertise-client-urls', clients],
      ['--listen-peer-urls', peers],
      ['--initial-advertise-peer-urls', peers],
      ['--initial-cluster', `default=${peers}`],
    ].flat(),
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  const etcd = new Etcd(clients, child, directory, ports)
  try {
    await ready(clients, child, startTimeout, binary)
  } catch (error) {
    await etcd.stop()
    throw error
  }
  return etcd
}

/** An etcd that was started by {@link startEtcd}. */
export class Etcd {
  /** Where it is: give it to a `Client`. */
  readonly endpoint: string
  /** Its process: to freeze it, or to kill it. */
  readonly pid: number
  readonly #child: ChildProcess
  readonly #directory: string
  readonly #ports: Port[]
  readonly #kill: () => void

  /** @internal */
  constructor(endpoint: string, child: ChildProcess, directory: string, ports: Port[]) {
    this.endpoint = endpoint
    this.pid = child.pid ?? 0
    this.#child = child
    this.#directory = directory
    this.#ports = ports
    this.#kill = () => void child.kill('SIGKILL')
    process.once('exit', this.#kill)
  }

  /** Ends it and removes its data. A second call does nothing. */
  async stop(): Promise<void> {
    process.off('exit', this.#kill)
    if (this.#child.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null) {
      this.#child.ref()
      const exited = once(this.#child, 'exit')
      this.#kill()
      await exited
    }
    for (const port of this.#ports) port.release()
    await rm(this.#directory, { recursive: true, force: true })
  }

  /** As {@link stop}. For `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /**
   * Ends the lease of a guard, as an administrator or an expiry would: every lock of its session is lost, with
   * `LEASE_REVOKED`.
   */
  async revokeLease(guard: Guard): Promise<void> {
    const response = await fetch(`${this.endpoint}/v3/lease/revoke`, {
      method: 'POST',
      body: JSON.stringify({ ID: BigInt(`0x${guard.lease}`).toString() }),
    })
    if (!response.ok) throw new Error(`etcd did not revoke the lease ${guard.lease}: ${await response.text()}`)
  }
}

/**
 * Makes a guard lose its lock, with `KEY_DELETED`, on any store (`memory://` too), and waits until the guard has noticed.
 *
 * @param client Any client of the same store: the one that acquired it will do.
 */
export async function loseLock(client: Client, guard: Guard): Promise<void> {
  if (!guard.held) throw invalidArgument(`the lock ${guard.name} is not held by this guard, so it cannot be lost`)
  const { signal } = guard
  const lost = once(signal, 'abort')
  // A held lock keeps no process alive, and neither does the wait for its loss.
  const alive = setInterval(() => {}, KEPT_ALIVE)
  try {
    await client.forceRelease(guard.name, guard.token)
    await lost
  } finally {
    clearInterval(alive)
  }
}

/** Waits until it serves requests; fails if it ends before, or is not there at all. */
async function ready(endpoint: string, child: ChildProcess, limit: number, binary: string): Promise<void> {
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-KEPT)
  })
  let failed: Error | undefined
  child.once('error', (cause) => {
    failed = new Error(`could not start ${binary}: install etcd, or name it in the option binary`, { cause })
  })
  child.once('exit', (code, signal) => {
    failed ??= new Error(`${binary} ended at once (${code ?? signal}); it said:\n${said}`)
  })
  const until = Date.now() + limit
  // Whoever answers there, it is not this one once it has ended.
  while (!(await isHealthy(endpoint)) || failed !== undefined) {
    if (failed !== undefined) throw failed
    if (Date.now() > until) throw new Error(`${binary} did not serve requests within ${limit} ms; it said:\n${said}`)
    await pause(LOOK_AGAIN)
  }
  // From here on it may say what it likes, and keeps no process alive.
  child.stderr?.removeAllListeners('data').resume()
  child.unref()
  ;(child.stderr as unknown as { unref(): void } | null)?.unref()
}

async function isHealthy(endpoint: string): Promise<boolean> {
  try {
    const response = await fetch(`${endpoint}/health`)
    const health = (await response.json()) as { health?: string }
    return health.health === 'true'
  } catch {
    return false
  }
}
