/** What a client and an acquire can be told, and how it is checked at the door. Times are in milliseconds. */

import { constants } from 'node:os'
import { types } from 'node:util'
import type { ClaimOptions, NameOptions } from './claims'
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
  /**
   * Closes the client when the process is told to end: `true` for SIGINT and SIGTERM, or a list of signals. The process then
   * ends by the signal, unless somebody else listens to it. Default false: a signal ends the process at once, and its locks
   * are free one TTL later.
   */
  closeOnSignal?: boolean | readonly NodeJS.Signals[] | undefined
}

/** How a key is put into a queue, whatever for. */
interface JoinOptions {
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

/** How somebody waits for his turn. */
interface WaitOptions {
  /** How long to wait for it; 0 is a try. Default: for as long as it takes. */
  wait?: number | undefined
  /**
   * Whether to queue again, at the end, if the session is lost while waiting (default true). With `false` the acquire fails
   * with `ERR_LEASEHOLD_LOST`.
   */
  requeue?: boolean | undefined
}

/** How far callers of one client may pass a lock on among themselves while others wait for it. */
export interface LocalFirstBound {
  /** How many owners it may have one after the other, the first one included. From 1 up; default 64. */
  turns?: number | undefined
  /** For how many milliseconds it may be passed on after it was won: more than 0, at most 60,000; default 100. */
  time?: number | undefined
}

/** How an acquire shares its place in the queue with others of its client. */
interface SharingOptions {
  /**
   * Takes turns with those that wait for the lock in the same client and say so, too: they pass it on among themselves, first
   * come first served, without a word to etcd; while others wait elsewhere, within this bound. Default false. For one lock
   * that is claimed whole.
   */
  localFirst?: boolean | LocalFirstBound | undefined
  /**
   * For how many milliseconds the lock stays with this client after the release, if nobody waits for it: its next acquire
   * needs no request then, and a try elsewhere fails meanwhile. It goes at once when somebody else queues. Default 0. For one
   * lock that is claimed whole.
   */
  linger?: number | undefined
}

/** How a lock is acquired when it is taken or left at once. */
export interface TryOptions extends JoinOptions, ClaimOptions, SharingOptions {}

/** How a lock is acquired. */
export interface AcquireOptions extends TryOptions, WaitOptions {}

/** How a lock is acquired around a function. */
export interface ScopeOptions extends AcquireOptions {
  /**
   * Says that this work was started inside a `withLock` which does not wait for it, so that it cannot be a deadlock if it
   * waits for the same lock (default false).
   */
  detached?: boolean | undefined
}

/** How somebody stands for election. */
export interface CampaignOptions extends JoinOptions, WaitOptions {}

/** How a lock is requested by the words of the Web Locks API. */
export interface LockOptions {
  /** `shared` is held beside others that are shared. Default `exclusive`. */
  mode?: 'exclusive' | 'shared' | undefined
  /** Whether to run the callback with null, instead of waiting, where the lock cannot be had at once. Default false. */
  ifAvailable?: boolean | undefined
  /**
   * Whether to take the lock away from whoever holds it or waits for it, other processes too. Their `request` rejects with
   * `ERR_LEASEHOLD_LOST`; those who wait queue again. For operators. Default false.
   */
  steal?: boolean | undefined
  /** Gives up waiting: the promise rejects with the signal's `reason`. */
  signal?: AbortSignal | undefined
}

/** For operations that do not wait for a lock. */
export interface CallOptions {
  /** Gives up waiting for the answer: the promise rejects with the signal's `reason`. A write may still take effect. */
  signal?: AbortSignal | undefined
}

/** For each option, what is wrong with a value, if anything is. */
type Checks<T> = { [name in keyof Required<T>]: (name: string, value: unknown) => string | undefined }

const text = expects(
  'a text, without halves of surrogate pairs',
  (value) => typeof value === 'string' && value.isWellFormed(),
)
const flag = expects('true or false', (value) => typeof value === 'boolean')
const span = expects('a number of milliseconds from 0 up', (value) => typeof value === 'number' && value >= 0)
const whole = expects(
  'a whole number from 0 up',
  (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32,
)
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
  closeOnSignal: expects('true, false or a list of signals', isSignals),
}
const CALL: Checks<CallOptions> = { signal }
const JOIN: Checks<JoinOptions> = { ttl: span, renew: flag, signal }
const WAIT: Checks<WaitOptions> = { wait: span, requeue: flag }
const CLAIM: Checks<ClaimOptions> = { shared: flag, permits: whole, of: whole }
const BOUND: Checks<LocalFirstBound> = { turns: whole, time: span }
const SHARING: Checks<SharingOptions> = { localFirst: bound, linger: span }
const TRY: Checks<TryOptions> = { ...JOIN, ...CLAIM, ...SHARING }
const ACQUIRE: Checks<AcquireOptions> = { ...TRY, ...WAIT }
const SCOPE: Checks<ScopeOptions> = { ...ACQUIRE, detached: flag }
const CAMPAIGN: Checks<CampaignOptions> = { ...JOIN, ...WAIT }
const REQUEST: Checks<LockOptions> = {
  mode: expects("'exclusive' or 'shared'", (value) => value === 'exclusive' || value === 'shared'),
  ifAvailable: flag,
  steal: flag,
  signal,
}
const NAME: Checks<NameOptions> = { ...CLAIM, name: text }

function expects(what: string, isRight: (value: unknown) => boolean) {
  return (name: string, value: unknown) => (isRight(value) ? undefined : `${name} must be ${what}, not ${show(value)}`)
}

function isSignals(value: unknown): boolean {
  if (typeof value === 'boolean') return true
  // Those that no process can listen to are not among them.
  return Array.isArray(value) && value.every((each) => each in constants.signals && !/^SIG(KILL|STOP)$/.test(each))
}

function bound(name: string, value: unknown): string | undefined {
  if (typeof value === 'boolean') return undefined
  if (typeof value !== 'object' || value === null)
    return `${name} must be true, false or { turns, time }, not ${show(value)}`
  check(BOUND, value)
  return undefined
}

/** A value as a message shows it: what it is, not all that is in it. */
function show(value: unknown): string {
  if (value === undefined || value === null || ['number', 'boolean'].includes(typeof value)) return String(value)
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

/** The two forms of what runs a function under a lock: with options in front of it, or without. */
export function optionsAndWork<Options extends object, Work>(
  what: string,
  optionsOrWork: Options | Work,
  maybeWork: Work | undefined,
): [Options, Work] {
  const isAlone = typeof optionsOrWork === 'function'
  const work = isAlone ? optionsOrWork : maybeWork
  if (typeof work !== 'function') throw invalidArgument(`${what} needs a function to run under the lock`)
  // Not left aside: whoever says how long to wait would wait for ever.
  if (isAlone && maybeWork !== undefined) throw invalidArgument(`${what} takes options in front of its function`)
  return [isAlone ? ({} as Options) : (optionsOrWork as Options), work as Work]
}

/**
 * What a function under a lock brings, unless it is a generator: its body would run when the lock is released, without it.
 */
export function notLater<T>(brought: T): T {
  if (!types.isGeneratorObject(brought)) return brought
  throw invalidArgument(
    'the body of a generator runs after the lock would be released: call withLock inside of it, or acquire and release',
  )
}

/** Options with what they inherit, as those of a class that has defaults: what follows copies only what is an object's own. */
function own<T extends object>(checks: Checks<T>, options: T): T {
  const prototype = Object.getPrototypeOf(options)
  if (prototype === Object.prototype || prototype === null) return options
  const known = Object.keys(checks).map((name) => [name, options[name as keyof T]])
  return { ...Object.fromEntries(known.filter(([, value]) => value !== undefined)), ...options }
}

function check<T extends object>(checks: Checks<T>, given: T): T {
  if (typeof given !== 'object' || given === null) {
    throw invalidArgument(`options must be an object, not ${show(given)}`)
  }
  const options = own(checks, given)
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
/** Checks the options of an acquire around a function. */
export const checkScope = (options: ScopeOptions): ScopeOptions => check(SCOPE, options)

/** Checks the options of a campaign. */
export const checkCampaign = (options: CampaignOptions): CampaignOptions => check(CAMPAIGN, options)
/** Checks the options of a request by the Web Locks API. */
export const checkRequest = (options: LockOptions): LockOptions => check(REQUEST, options)
/** Checks one of several names. */
export const checkName = (options: NameOptions): NameOptions => check(NAME, options)

/** How to acquire, as the native module takes it: see `Acquiring` in native/src/client.rs. */
export function acquiring(options: AcquireOptions): number[] {
  const { wait, ttl, renew = true, requeue = true, localFirst = false, linger } = options
  // For as long as it takes, said in another way.
  const limit = wait === Number.POSITIVE_INFINITY ? undefined : wait
  const { turns = -1, time } = typeof localFirst === 'object' ? localFirst : {}
  return [
    milliseconds(limit),
    milliseconds(ttl),
    milliseconds(linger),
    Number(renew),
    Number(requeue),
    Number(localFirst !== false),
    turns,
    milliseconds(time),
  ]
}

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
  const { exitTimeout = EXIT_TIMEOUT, closeOnSignal: _, ...rest } = check(CLIENT, options)
  const open: OpenOptions = { endpoints: list }
  for (const [name, value] of Object.entries(rest)) {
    if (value !== undefined) Object.assign(open, { [name]: typeof value === 'number' ? milliseconds(value) : value })
  }
  return [open, milliseconds(exitTimeout)]
}
