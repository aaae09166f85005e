/** What a client and an acquire can be told, and how it is checked at the door. Times are in milliseconds. */

import { invalidArgument } from './errors'
import type { OpenOptions } from './module'

/** Options of a `Client`. */
export interface ClientOptions {
  /**
   * How long a lock stays taken after its owner crashed: the TTL of the session's lease. From 2,000 (5,000 or more is
   * recommended) to 30 days, rounded up to whole seconds. Default 15,000. etcd may choose a longer one.
   */
  ttl?: number | undefined
  /** Put before every name and every key of a guarded write, verbatim. Default empty. */
  namespace?: string | undefined
  /** Who this client is, shown to whoever looks at the queue. At most 256 bytes, no secret. Default `<host>:<pid>`. */
  identity?: string | undefined
  /** The user, where etcd asks for one. */
  user?: string | undefined
  /** The user's password. */
  password?: string | undefined
  /**
   * Whether the password may go over plain `http://` to other machines, where everybody on the way can read it (default
   * false). To this machine itself, and over `https://`, it always may.
   */
  plaintextPassword?: boolean | undefined
  /** The certificates (PEM) of the authorities that may have signed etcd's. Default: those that this machine trusts. */
  caFile?: string | undefined
  /** Our own certificate (PEM), where etcd asks for one. Needs `keyFile`. */
  certFile?: string | undefined
  /** The private key (PEM) of our own certificate. */
  keyFile?: string | undefined
  /** How long opening a connection may take before the next endpoint is tried: 10 to 3,600,000, default 2,000. */
  connectTimeout?: number | undefined
  /** How long an operation may take that does not wait for a lock: 10 to 3,600,000, default 5,000. */
  requestTimeout?: number | undefined
  /**
   * How long the exit of the process may wait until what this client holds is released. 0 leaves it to the leases: a lock
   * is then free one TTL after the exit. Default 1,000.
   */
  exitTimeout?: number | undefined
}

/** How a lock is acquired when it is taken or left at once. */
export interface TryOptions {
  /** The TTL of this hold, instead of the client's; see {@link ClientOptions.ttl}. Each TTL has a lease of its own. */
  ttl?: number | undefined
  /**
   * Whether the hold is renewed until it is released (default true). With `false` it ends at its TTL, unless it is
   * extended: a lock that frees itself.
   */
  renew?: boolean | undefined
  /**
   * Gives up: the promise rejects with the signal's `reason`, as soon as the key in the queue is withdrawn. A lock that was
   * won at the same moment is released. Once the promise has resolved, the signal does nothing.
   */
  signal?: AbortSignal | undefined
}

/** How a lock is acquired. */
export interface AcquireOptions extends TryOptions {
  /** How long to wait for it; 0 is a try. Default: for as long as it takes. */
  wait?: number | undefined
  /**
   * Whether to queue again, at the end, if the session is lost while waiting (default true). With `false` the acquire fails
   * with `ERR_LEASEHOLD_LOST`.
   */
  requeue?: boolean | undefined
}

/** For operations that do not wait for a lock. */
export interface CallOptions {
  /** Gives up waiting for the answer: the promise rejects with the signal's `reason`. A write may still take effect. */
  signal?: AbortSignal | undefined
}

type Checks<T> = { [name in keyof Required<T>]: (name: string, value: unknown) => string | undefined }

const text = expects('a text', (value) => typeof value === 'string')
const flag = expects('true or false', (value) => typeof value === 'boolean')
const span = expects('a number of milliseconds from 0 up', (value) => typeof value === 'number' && value >= 0)
// By what it can do rather than by its class: a signal may come from another realm, or from a library.
const signal = expects(
  'an AbortSignal',
  (value) => typeof value === 'object' && value !== null && 'aborted' in value && 'addEventListener' in value,
)

const CLIENT: Checks<ClientOptions> = {
  ttl: span,
  namespace: text,
  identity: text,
  user: text,
  password: text,
  plaintextPassword: flag,
  caFile: text,
  certFile: text,
  keyFile: text,
  connectTimeout: span,
  requestTimeout: span,
  exitTimeout: span,
}
const CALL: Checks<CallOptions> = { signal }
const TRY: Checks<TryOptions> = { ttl: span, renew: flag, signal }
const ACQUIRE: Checks<AcquireOptions> = { ...TRY, wait: span, requeue: flag }

function expects(what: string, isRight: (value: unknown) => boolean) {
  return (name: string, value: unknown) => (isRight(value) ? undefined : `${name} must be ${what}, not ${show(value)}`)
}

/** A value as a message shows it: what it is, not all that is in it. */
function show(value: unknown): string {
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : `a ${typeof value}`
}

function check<T extends object>(checks: Checks<T>, options: T): T {
  if (typeof options !== 'object' || options === null) {
    throw invalidArgument(`options must be an object, not ${show(options)}`)
  }
  for (const name of Object.keys(options)) {
    const value = options[name as keyof T]
    if (value === undefined) continue
    if (!Object.hasOwn(checks, name)) {
      throw invalidArgument(`there is no option ${name}; known are ${Object.keys(checks).join(', ')}`)
    }
    const problem = checks[name as keyof T](name, value)
    if (problem !== undefined) throw invalidArgument(problem)
  }
  return options
}

/** Checks the options of a call that waits for no lock. */
export const checkCall = (options: CallOptions): CallOptions => check(CALL, options)
/** Checks the options of a try. */
export const checkTry = (options: TryOptions): TryOptions => check(TRY, options)
/** Checks the options of an acquire. */
export const checkAcquire = (options: AcquireOptions): AcquireOptions => check(ACQUIRE, options)

/** Checks a name, or another text that is an argument. Its length is the core's to judge. */
export function checkText(what: string, value: unknown): string {
  if (typeof value !== 'string') throw invalidArgument(`${what} must be a text, not ${show(value)}`)
  if (!value.isWellFormed())
    throw invalidArgument(`${what} must be well-formed Unicode; it has half of a surrogate pair`)
  return value
}

/** Milliseconds as the native module takes them: whole, and below 0 where nothing is said. */
export function milliseconds(span: number | undefined): number {
  // Beyond that, a number is not exact any more; no span here gets near.
  return span === undefined ? -1 : Math.min(Math.ceil(span), Number.MAX_SAFE_INTEGER)
}

/** How long an exit waits where nothing is said, in milliseconds. */
const EXIT_TIMEOUT = 1_000

/** Checks the options of a client; returns them as the native module takes them. */
export function openOptions(endpoints: unknown, options: ClientOptions): [OpenOptions, number] {
  const list: unknown[] = Array.isArray(endpoints) ? endpoints : [endpoints]
  if (!list.every((endpoint) => typeof endpoint === 'string')) {
    throw invalidArgument('endpoints must be a URL or a list of URLs, such as http://127.0.0.1:2379')
  }
  const { exitTimeout = EXIT_TIMEOUT, ...rest } = check(CLIENT, options)
  const open: OpenOptions = { endpoints: list }
  for (const [name, value] of Object.entries(rest)) {
    if (value !== undefined) Object.assign(open, { [name]: typeof value === 'number' ? milliseconds(value) : value })
  }
  return [open, milliseconds(exitTimeout)]
}
