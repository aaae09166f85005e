/** The Web Locks API, as browsers have it in `navigator.locks`, on etcd. */

import type { Client } from './client'
import { hasCode, invalidArgument } from './errors'
import type { Guard } from './guard'
import { checkRequest, type LockOptions, optionsAndWork } from './options'
import { pause } from './soon'

/** What a callback is given. */
export interface WebLock {
  readonly name: string
  readonly mode: 'exclusive' | 'shared'
  /** What the browser's locks do not have: the fencing token, the signal of a loss, writes that only the owner can make. */
  readonly guard: Guard
}

/** Somebody who holds a lock or waits for it. */
export interface LockInfo {
  name: string
  mode: 'exclusive' | 'shared'
  /** Its identity, or its key where it has none. */
  clientId: string
}

/** What {@link LockManager.query} brings. */
export interface LockManagerSnapshot {
  held: LockInfo[]
  pending: LockInfo[]
}

type Callback<T> = (lock: WebLock | null) => T | PromiseLike<T>

/** The pause before a theft is tried again, in milliseconds. */
const AGAIN = 20

/** The words of the Web Locks API; see {@link locks}. */
export class LockManager {
  readonly #client: Client
  /** How many requests are about a name now. */
  readonly #names = new Map<string, number>()

  /** @internal */
  constructor(client: Client) {
    this.#client = client
  }

  /**
   * Runs `callback` while the lock is held. Resolves to what it brings.
   *
   * @throws As `client.withLock`.
   */
  async request<T>(name: string, callback: Callback<T>): Promise<T>
  async request<T>(name: string, options: LockOptions, callback: Callback<T>): Promise<T>
  async request<T>(
    name: string,
    optionsOrCallback: LockOptions | Callback<T>,
    maybeCallback?: Callback<T>,
  ): Promise<T> {
    const [options, callback] = optionsAndWork<LockOptions, Callback<T>>('request', optionsOrCallback, maybeCallback)
    const { mode = 'exclusive', ifAvailable = false, steal = false, signal } = checkRequest(options)
    if (steal && (ifAvailable || mode === 'shared' || signal !== undefined)) {
      throw invalidArgument('steal goes with neither ifAvailable nor shared nor a signal')
    }
    let isIn = false
    const work = (guard: Guard) => {
      isIn = true
      return callback({ name, mode, guard })
    }
    const how = { shared: mode === 'shared', signal }
    this.#count(name, 1)
    try {
      while (steal) {
        try {
          return await this.#client.withLock(name, { ...how, wait: 0 }, work)
        } catch (error) {
          if (isIn || !hasCode(error, 'NOT_ACQUIRED')) throw error
        }
        await this.#clear(name)
      }
      return await this.#client.withLock(name, ifAvailable ? { ...how, wait: 0 } : how, work)
    } catch (error) {
      if (!ifAvailable || isIn || !hasCode(error, 'NOT_ACQUIRED')) throw error
    } finally {
      this.#count(name, -1)
    }
    return await callback(null)
  }

  /**
   * Who holds and who waits, in every process. Of which names: those given, or else those that requests of this client are
   * about at this moment.
   */
  async query(names: Iterable<string> = this.#names.keys()): Promise<LockManagerSnapshot> {
    const snapshot: LockManagerSnapshot = { held: [], pending: [] }
    for (const name of typeof names === 'string' ? [names] : [...names]) {
      for (const { key, identity, shared, holder } of await this.#client.queue(name)) {
        const info: LockInfo = { name, mode: shared ? 'shared' : 'exclusive', clientId: identity ?? key }
        snapshot[holder ? 'held' : 'pending'].push(info)
      }
    }
    return snapshot
  }

  /** Takes away whatever stands there now. */
  async #clear(name: string): Promise<void> {
    for (const { token } of await this.#client.queue(name)) {
      await this.#client.forceRelease(name, token).catch((error) => {
        if (!hasCode(error, 'NOT_HELD')) throw error
      })
    }
    await pause(Math.random() * AGAIN)
  }

  #count(name: string, more: number): void {
    const count = (this.#names.get(name) ?? 0) + more
    if (count === 0) this.#names.delete(name)
    else this.#names.set(name, count)
  }
}

/** One for each client, which therefore knows all its requests. */
const managers = new WeakMap<Client, LockManager>()

/**
 * A client by the words of the Web Locks API: `locks(client).request('name', async (lock) => …)`. Unlike the browser's, a lock
 * can be lost: give `lock.guard.signal` to the work.
 */
export function locks(client: Client): LockManager {
  const manager = managers.get(client) ?? new LockManager(client)
  managers.set(client, manager)
  return manager
}
