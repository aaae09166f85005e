/** A client: one etcd cluster, the connections to it, and the sessions of its locks. */

import { EventEmitter } from 'node:events'
import { fromThrown, hasCode, invalidArgument, type LostReason, toError } from './errors'
import { whenListened } from './events'
import { Guard } from './guard'
import { listenByDefault } from './log'
import type { ClientHandle, QueueEntry } from './module'
import { native } from './native'
import { brought, operations } from './operations'
import {
  type AcquireOptions,
  type CallOptions,
  type ClientOptions,
  checkAcquire,
  checkCall,
  checkText,
  checkTry,
  milliseconds,
  openOptions,
  type TryOptions,
} from './options'
import { inside, isInside } from './scopes'

/**
 * How a client's session feels. `ok`: renewed in time. `suspect`: a renewal is overdue; locks are still held, and there is
 * time left to stop in good order. `lost`: its guards are lost for this reason; the next acquire starts another session.
 */
export type SessionState = { state: 'ok' | 'suspect'; reason?: never } | { state: 'lost'; reason: LostReason }

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
  /** Since when it waits or holds, in UTC (RFC 3339). */
  since?: string
  /** The version of leasehold that it uses. */
  version?: string
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
export class Client extends EventEmitter<ClientEvents> {
  readonly #handle: ClientHandle
  readonly #acquire: ClientHandle['acquire']
  #endStates: (() => void) | undefined

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
    this.#acquire = this.#handle.acquire
    listenByDefault()
    whenListened(this as EventEmitter, 'state', () => this.#watch())
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
   * @throws What the callback throws. Otherwise as {@link acquire}; `ERR_LEASEHOLD_LOST` if the lock was lost before the
   * callback ended; `ERR_LEASEHOLD_WOULD_DEADLOCK`, at once, inside another `withLock` of this client and name.
   */
  async withLock<T>(name: string, callback: (guard: Guard) => T | PromiseLike<T>): Promise<T>
  async withLock<T>(name: string, options: AcquireOptions, callback: (guard: Guard) => T | PromiseLike<T>): Promise<T>
  async withLock<T>(
    name: string,
    optionsOrCallback: AcquireOptions | ((guard: Guard) => T | PromiseLike<T>),
    maybeCallback?: (guard: Guard) => T | PromiseLike<T>,
  ): Promise<T> {
    const [options, callback] =
      typeof optionsOrCallback === 'function' ? [{}, optionsOrCallback] : [optionsOrCallback, maybeCallback]
    if (typeof callback !== 'function') throw invalidArgument('withLock needs a function to run under the lock')
    if (isInside(this, name)) throw toError(native.wouldDeadlock(name))
    const guard = await this.acquire(name, options)
    let result: T
    try {
      result = await inside(this, name, () => callback(guard))
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
   * Locks are not re-entrant: who holds a lock and acquires it again waits for ever.
   *
   * @throws `ERR_LEASEHOLD_NOT_ACQUIRED` when `wait` has passed. `ERR_LEASEHOLD_INVALID_ARGUMENT` for a bad name or option.
   * `ERR_LEASEHOLD_UNAVAILABLE`, `ERR_LEASEHOLD_DEADLINE_EXCEEDED`, `ERR_LEASEHOLD_UNAUTHENTICATED`,
   * `ERR_LEASEHOLD_PERMISSION_DENIED` or `ERR_LEASEHOLD_RESOURCE_EXHAUSTED` if the queue could not be joined within the
   * request timeout. `ERR_LEASEHOLD_CLOSED` if the client is closed. `ERR_LEASEHOLD_LOST` as `requeue` says. The signal's
   * `reason` if it aborts.
   */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Guard> {
    const { wait, ttl, renew = true, requeue = true, signal } = checkAcquire(options)
    checkText('the name of a lock', name)
    // For as long as it takes, said in another way.
    const limit = wait === Number.POSITIVE_INFINITY ? undefined : wait
    const result = await operations().run<object>(
      (tag) => this.#acquire(tag, name, milliseconds(limit), milliseconds(ttl), renew, requeue),
      signal,
      (won) => new Guard(won).release().catch(() => {}),
    )
    return new Guard(brought(result))
  }

  /**
   * Takes the lock if nobody holds it or waits for it; otherwise resolves to null and leaves nothing in the queue.
   *
   * @throws As {@link acquire}, but for `ERR_LEASEHOLD_NOT_ACQUIRED`.
   */
  async tryAcquire(name: string, options: TryOptions = {}): Promise<Guard | null> {
    try {
      return await this.acquire(name, { ...checkTry(options), wait: 0 })
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
    return brought(await operations().run<QueueEntry[]>((tag) => this.#handle.queue(tag, name), signal))
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
    brought(await operations().run((tag) => this.#handle.close(tag)))
    this.#endStates?.()
  }

  /** As {@link close}. For `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Asks the core to tell of states: once, and only if somebody wants to know. */
  #watch(): void {
    this.#endStates ??= operations().subscribe<SessionState>(
      (tag) => this.#handle.onState(tag),
      (state) => {
        if (state !== undefined) this.emit('state', state)
      },
    )
  }
}
