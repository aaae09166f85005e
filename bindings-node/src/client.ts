/** A client: one etcd cluster, the connections to it, and the sessions of its locks. */

import { AsyncResource } from 'node:async_hooks'
import type { EventEmitter } from 'node:events'
import { type InspectOptions, inspect } from 'node:util'
import { isKeptOut, type Names, toNames, toWanted } from './claims'
import { Election } from './election'
import { Emitter } from './emitter'
import { fromThrown, hasCode, invalidArgument, type LostReason, toError } from './errors'
import { Guard } from './guard'
import { Lock } from './lock'
import { listenByDefault } from './log'
import { type Metrics, toMetrics } from './metrics'
import type { ClientHandle, QueueEntry, Wanted } from './module'
import { native } from './native'
import { brought, operations, type Result } from './operations'
import {
  type AcquireOptions,
  acquiring,
  type CallOptions,
  type ClientOptions,
  checkAcquire,
  checkCall,
  checkScope,
  checkText,
  checkTry,
  notLater,
  openOptions,
  optionsAndWork,
  type ScopeOptions,
  type TryOptions,
} from './options'
import { inside, scopesAround } from './scopes'
import { closeOn } from './signals'

/**
 * How a client's session feels. `ok`: renewed in time. `suspect`: a renewal is overdue; locks are still held, and there is
 * time left to stop in good order. `lost`: its guards are lost for this reason; the next acquire starts another session.
 */
export type SessionState = { state: 'ok' | 'suspect'; reason?: never } | { state: 'lost'; reason: LostReason }

/** What is run under a lock. */
export type Work<T> = (guard: Guard) => T | PromiseLike<T>

/** The events of a {@link Client}. There is no `error` event: what fails, rejects. */
export interface ClientEvents {
  /** The state of the client's session changed. */
  state: [state: SessionState]
}

/** Somebody in the queue of a lock. */
export interface Contender {
  /** Its key in etcd, namespace included. */
  key: string
  /** Its fencing token: the create revision of the key. */
  token: bigint
  /** Its lease, in lower-case hexadecimal. Absent: a key that never ends by itself, written by hand. */
  lease?: string
  /** Who it says it is. */
  identity?: string
  /** The host it runs on. */
  host?: string
  /** Its process there. */
  pid?: number
  /** Since when it waits or holds, by its own clock. */
  since?: Date
  /** The version of leasehold that it uses. */
  version?: string
  /** Whether it holds; otherwise it waits for somebody ahead of it. */
  holder: boolean
  /** Whether it claims a share of the lock, and not all of it. */
  shared: boolean
  /** How many permits it claims, where it claims permits … */
  permits?: number
  /** … and of how many. */
  of?: number
  /** Whether it is no client of leasehold but, say, `etcdctl lock`. */
  foreign: boolean
}

/**
 * A connection to an etcd cluster, and the sessions of the locks taken through it.
 *
 * It is lazy: making one opens nothing. The first operation starts one native thread for the whole process, which keeps the
 * leases alive however busy the event loop is. An idle client, or a lock that is held, keeps no process alive; an operation
 * that was not answered yet, such as an acquire that waits, does.
 */
export class Client extends Emitter<ClientEvents> {
  readonly #handle: ClientHandle
  readonly #start: ClientHandle['acquire']
  #endStates: (() => void) | undefined
  #endSignals: (() => void) | undefined

  /**
   * @param endpoints One or several of `http://host:port`, `https://host:port` or `host:port`, as a list or separated by
   * commas. Options can follow behind a question mark: `http://a:2379?ttl=10s&namespace=/shop`. `memory://name` is a store
   * inside this process, for unit tests; **it locks nothing beyond this process.**
   * @throws `ERR_LEASEHOLD_INVALID_ARGUMENT`, with a message that says which option is wrong and what it should be.
   */
  constructor(endpoints: string | readonly string[], options: ClientOptions = {}) {
    super()
    const [open, exitTimeout] = openOptions(endpoints, options)
    try {
      this.#handle = operations().environment.open(open, exitTimeout)
    } catch (error) {
      throw fromThrown(error)
    }
    this.#start = this.#handle.acquire
    const { closeOnSignal = false } = options
    if (closeOnSignal !== false) this.#endSignals = closeOn(this, closeOnSignal)
    listenByDefault()
  }

  /** Who this client says it is to whoever looks at a queue. */
  get identity(): string {
    return this.#handle.identity
  }

  /**
   * Runs `callback` while this client holds the lock, and releases it whatever happens. Resolves to what the callback brings.
   *
   * Give `guard.signal` to whatever works under the lock, and `guard.token` to whatever is written there.
   *
   * @throws What the callback throws. `ERR_LEASEHOLD_INVALID_ARGUMENT` for a generator function, which would run without the
   * lock. Otherwise as {@link acquire}; `ERR_LEASEHOLD_LOST` if the lock was lost before the
   * callback ended; `ERR_LEASEHOLD_WOULD_DEADLOCK`, at once, inside another `withLock` that still holds this lock, by this
   * client or another one, unless `wait` is 0. Work that is started inside, and that nobody inside waits for, says
   * `detached: true`.
   */
  async withLock<T>(name: string, callback: Work<T>): Promise<T>
  async withLock<T>(name: string, options: ScopeOptions, callback: Work<T>): Promise<T>
  async withLock<T>(name: string, optionsOrCallback: ScopeOptions | Work<T>, maybeCallback?: Work<T>): Promise<T> {
    return await this.#scope(checkText('the name of a lock', name), optionsOrCallback, maybeCallback)
  }

  /**
   * {@link withLock} with several locks, which are acquired at once, all or none: whatever others hold or wait for, it cannot
   * end in a deadlock. Each is a name, or `{ name, shared, permits, of }`; what the options say of that is for names alone.
   *
   * @throws As {@link withLock}; `ERR_LEASEHOLD_INVALID_ARGUMENT` for no names, more than 32, or one that is there twice.
   */
  async withLocks<T>(names: Names, callback: Work<T>): Promise<T>
  async withLocks<T>(names: Names, options: ScopeOptions, callback: Work<T>): Promise<T>
  async withLocks<T>(names: Names, optionsOrCallback: ScopeOptions | Work<T>, maybeCallback?: Work<T>): Promise<T> {
    return await this.#scope(names, optionsOrCallback, maybeCallback)
  }

  async #scope<T>(names: Names, optionsOrCallback: ScopeOptions | Work<T>, maybeCallback?: Work<T>): Promise<T> {
    const [options, callback] = optionsAndWork<ScopeOptions, Work<T>>('withLock', optionsOrCallback, maybeCallback)
    const { detached = false, ...acquire } = checkScope(options)
    const wanted = toWanted(names, acquire)
    // Who does not wait waits for nobody.
    const held = detached || acquire.wait === 0 ? undefined : await this.#heldAround(wanted, acquire.signal)
    if (held !== undefined) throw toError(native.wouldDeadlock(held))
    const guard = new Guard(brought(await this.#win(wanted, acquire)))
    let result: T
    try {
      result = notLater(await inside({ owner: this, guard, wanted, isDetached: detached }, () => callback(guard)))
    } catch (error) {
      await guard.release().catch(() => {})
      throw error
    }
    try {
      await guard.release()
    } catch (error) {
      // A loss is the callers' business. A guard that the callback released itself is not, and neither is an etcd that did
      // not answer: the work was done under the lock, and the key is being cleaned away.
      if (hasCode(error, 'LOST')) throw error
    }
    return result
  }

  /**
   * Waits for the lock; first come, first served across all processes and languages.
   *
   * Several names are acquired at once, all or none, as {@link withLocks} says. `{ shared: true }` claims a share,
   * `{ permits, of }` some permits of a semaphore. Locks are not re-entrant: who holds a lock and acquires it again waits for
   * ever.
   *
   * @throws `ERR_LEASEHOLD_NOT_ACQUIRED` when `wait` has passed. `ERR_LEASEHOLD_INVALID_ARGUMENT` for a bad name or option.
   * `ERR_LEASEHOLD_UNAVAILABLE`, `ERR_LEASEHOLD_DEADLINE_EXCEEDED`, `ERR_LEASEHOLD_UNAUTHENTICATED`,
   * `ERR_LEASEHOLD_PERMISSION_DENIED` or `ERR_LEASEHOLD_RESOURCE_EXHAUSTED` if the queue could not be joined within the
   * request timeout. `ERR_LEASEHOLD_CLOSED` if the client is closed. `ERR_LEASEHOLD_LOST` as `requeue` says. The signal's
   * `reason` if it aborts.
   */
  async acquire(names: Names, options: AcquireOptions = {}): Promise<Guard> {
    const checked = checkAcquire(options)
    return new Guard(brought(await this.#win(toWanted(names, checked), checked)))
  }

  /** Brings the handle of a guard. Not async itself: that would be one more promise for every lock. */
  #win(wanted: Wanted[], options: AcquireOptions): Promise<Result<object>> {
    const [names, how] = [toNames(wanted), acquiring(options)]
    return operations().run<object>(
      (tag) => this.#start(tag, names, how),
      options.signal,
      (won) => new Guard(won).release().catch(() => {}),
    )
  }

  /**
   * Takes the lock if nobody holds it or waits for it; otherwise resolves to null and leaves nothing in the queue.
   *
   * @throws As {@link acquire}, but for `ERR_LEASEHOLD_NOT_ACQUIRED`.
   */
  async tryAcquire(names: Names, options: TryOptions = {}): Promise<Guard | null> {
    try {
      return await this.acquire(names, { ...checkTry(options), wait: 0 })
    } catch (error) {
      if (hasCode(error, 'NOT_ACQUIRED')) return null
      throw error
    }
  }

  /**
   * Everybody in the queue of a lock, the holder first, foreign clients included.
   *
   * @throws As {@link ping}, and `ERR_LEASEHOLD_PERMISSION_DENIED`.
   */
  async queue(name: string, options: CallOptions = {}): Promise<Contender[]> {
    const { signal } = checkCall(options)
    checkText('the name of a lock', name)
    const entries = brought(await operations().run<QueueEntry[]>((tag) => this.#handle.queue(tag, name), signal))
    return entries.map(toContender)
  }

  /**
   * A lock, or several, as an object that has its options. Makes nothing yet.
   *
   * @throws `ERR_LEASEHOLD_INVALID_ARGUMENT` for a bad option; a bad name is reported by its operations.
   */
  lock(names: Names, defaults: ScopeOptions = {}): Lock {
    toWanted(names, checkScope(defaults))
    return new Lock(this, names, defaults)
  }

  /**
   * The election of a name. Makes nothing yet.
   *
   * @throws `ERR_LEASEHOLD_INVALID_ARGUMENT` for what is no text; a bad name is reported by its operations.
   */
  election(name: string): Election {
    return new Election(this.#handle, name)
  }

  /** What this client has counted and timed since it was made. Asks nobody. */
  metrics(): Metrics {
    return toMetrics(this.#handle.metrics())
  }

  /**
   * Takes the lock, or the place in the queue, away from the contender with this token, whoever it is. For operators: the
   * owner may still be at work, and only fencing tokens keep its late writes out.
   *
   * @throws `ERR_LEASEHOLD_NOT_HELD` if nobody has this token. Otherwise as {@link queue}.
   */
  async forceRelease(name: string, token: bigint, options: CallOptions = {}): Promise<void> {
    const { signal } = checkCall(options)
    checkText('the name of a lock', name)
    if (typeof token !== 'bigint') throw invalidArgument('a token is a bigint')
    brought(await operations().run((tag) => this.#handle.forceRelease(tag, name, token), signal))
  }

  /**
   * Asks etcd for a sign of life.
   *
   * @throws `ERR_LEASEHOLD_UNAVAILABLE` or `ERR_LEASEHOLD_DEADLINE_EXCEEDED` if there is none within the request timeout,
   * `ERR_LEASEHOLD_UNAUTHENTICATED` if etcd refuses the user, the password or the certificate, `ERR_LEASEHOLD_CLOSED`.
   */
  async ping(options: CallOptions = {}): Promise<void> {
    const { signal } = checkCall(options)
    brought(await operations().run((tag) => this.#handle.ping(tag), signal))
  }

  /**
   * Releases everything that this client holds or waits for, and ends it: guards are lost with `CLIENT_CLOSED`, acquires
   * reject with `ERR_LEASEHOLD_CLOSED`. Closing twice is no error.
   */
  async close(): Promise<void> {
    this.#endSignals?.()
    brought(await operations().run((tag) => this.#handle.close(tag)))
    this.#endStates?.()
  }

  /** As {@link close}. For `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** What `console.log` shows. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return `Client ${inspect({ identity: this.identity }, options)}`
  }

  /** The name, if there is one, that keeps out whoever asks for it inside the scopes around the code that runs now. */
  async #heldAround(wanted: readonly Wanted[], signal: AbortSignal | undefined): Promise<string | undefined> {
    const scopes = [...scopesAround()].filter(({ guard }) => guard.held)
    if (scopes.length === 0) return undefined
    for (const asked of wanted) {
      const ours = scopes.filter(({ owner }) => owner === this).flatMap((scope) => scope.wanted)
      const others = ours.filter(({ name }) => name === asked.name)
      for (const { owner, guard } of scopes) {
        // Another client, which may have another namespace, and may call the same etcd something else: so etcd is asked, where
        // the names allow it. What keeps it from answering is the acquire's to tell.
        const { token, keys } = guard
        const key = keys.find((held) => held.slice(0, held.lastIndexOf('/')).endsWith(asked.name))
        if (owner === this || key === undefined) continue
        const contenders = await this.queue(asked.name, { signal }).catch(() => [])
        const found = contenders.find((contender) => contender.key === key && contender.token === token)
        if (found !== undefined) others.push(toWanted(asked.name, found)[0] as Wanted)
      }
      if (isKeptOut(asked, others)) return asked.name
    }
    return undefined
  }

  protected override listened(event: keyof ClientEvents): void {
    // Once, and only if somebody wants to know.
    if (event === 'state') {
      this.#endStates ??= operations().subscribe<SessionState>(
        (tag) => this.#handle.onState(tag),
        AsyncResource.bind(teller(this.behind)),
      )
    }
  }
}

function toContender({ since, limit, isHolder, ...entry }: QueueEntry): Contender {
  const contender: Contender = { ...entry, holder: isHolder }
  // What others wrote may be anything.
  const date = since === undefined ? undefined : new Date(since)
  if (date !== undefined && !Number.isNaN(date.getTime())) contender.since = date
  if (limit !== undefined) contender.of = limit
  return contender
}

/** Apart from the client, so that one that is forgotten can be collected. */
function teller(listeners: EventEmitter): (state: SessionState | undefined) => void {
  return (state) => state !== undefined && listeners.emit('state', state)
}
