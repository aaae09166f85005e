/**
 * The native module: what it offers, and how it is found. Private to the package.
 *
 * Names, parameters and their order are those of `native/src`.
 */

import { join } from 'node:path'

/** The options of a client. */
export interface OpenOptions {
  endpoints: string[]
  ttl?: number
  namespace?: string
  identity?: string
  user?: string
  password?: string
  caFile?: string
  certFile?: string
  keyFile?: string
  connectTimeout?: number
  requestTimeout?: number
}

/** An error of the core. */
export interface Failure {
  number: number
  code: string
  message: string
  reason?: string
}

/** A step of a guarded transaction: a put if it has a value. */
export interface Step {
  kind: 'put' | 'delete' | 'get'
  key: Uint8Array
  value?: Uint8Array
}

/** A line for the log. Levels go from 1 (error) to 5 (trace). */
export interface Record {
  level: number
  target: string
  message: string
}

/** Starts an operation that completes under `tag`; returns what cancels it. Milliseconds below 0 say nothing. */
export interface ClientHandle {
  readonly identity: string
  acquire(tag: number, name: string, wait: number, ttl: number, renew: boolean, requeue: boolean): number
  ping(tag: number): number
  queue(tag: number, name: string): number
  forceRelease(tag: number, name: string, token: bigint): number
  onState(tag: number): number
  close(tag: number): number
}

/** As {@link ClientHandle}. */
export interface GuardHandle {
  readonly name: string
  readonly token: bigint
  readonly sequence: bigint
  readonly key: string
  readonly lease: string
  readonly held: boolean
  readonly remaining: number
  readonly lostReason: string | null
  release(tag: number): number
  extend(tag: number, span: number): number
  put(tag: number, key: Uint8Array, value: Uint8Array): number
  delete(tag: number, key: Uint8Array): number
  txn(tag: number, steps: Step[]): number
  lost(tag: number): number
}

/** One for each thread of JavaScript. */
export interface Environment {
  keepAlive(): void
  letEnd(): void
  open(options: OpenOptions, exitLimit: number): ClientHandle
  /** Four values for each completion, one after the other: its tag, whether it is the last, its failure, its value. */
  drain(most: number): unknown[]
  cancel(operation: number): boolean
  listen(tag: number, level: number): void
  exit(): boolean
}

/** The module. */
export interface Native {
  version(): string
  lost(name: string, reason: string): Failure
  wouldDeadlock(name: string): Failure
  Environment: new (onReady: () => void, isWorker: boolean) => Environment
}

/** The version of the package, and of the module that belongs to it. */
const { version: VERSION } = require('../package.json') as { version: string }

/**
 * The platforms as the names of the prebuilt modules have them, such as `linux-x64-gnu`. Which C library a Linux has is found
 * out by trying: the report of the process, which knows, takes longer than all the rest.
 */
function platforms(): string[] {
  const platform = `${process.platform}-${process.arch}`
  return process.platform === 'linux' ? [`${platform}-gnu`, `${platform}-musl`] : [platform]
}

/** Loads the module, or says where it was looked for and what was found there. */
function load(): Native {
  const named = process.env['LEASEHOLD_NATIVE']
  // First the one that a build of the repository puts beside the package.
  const beside = (platform: string) => join(__dirname, '..', `leasehold.${platform}.node`)
  const prebuilt = platforms().flatMap((platform) => [beside(platform), `@leasehold/${platform}`])
  const places = named === undefined ? prebuilt : [named]
  const tried: string[] = []
  for (const place of places) {
    try {
      const native = require(place) as Native
      if (native.version() === VERSION) return native
      tried.push(`${place}: has the version ${native.version()}, not ${VERSION}`)
    } catch (error) {
      tried.push(`${place}: ${error instanceof Error ? error.message.split('\n', 1)[0] : error}`)
    }
  }
  throw new Error(
    `leasehold found no native module for ${process.platform} on ${process.arch}. It tried:\n${tried.map((line) => `  ${line}\n`).join('')}` +
      'Install the package with its optional dependencies (npm install --include=optional, on the platform where it ' +
      'will run), or name a module in the environment variable LEASEHOLD_NATIVE.',
  )
}

export const native: Native = load()
