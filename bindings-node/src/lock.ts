/** A lock as an object: a name, and how it is acquired, said once. */

import type { Names } from './claims'
import type { Client, Work } from './client'
import type { Guard } from './guard'
import { type AcquireOptions, optionsAndWork, type ScopeOptions, type TryOptions } from './options'

/** A lock, or several, with its options; made by `client.lock(name, options)`. It holds nothing: a {@link Guard} does. */
export class Lock {
  /** The name, or the names. */
  readonly names: Names
  readonly #client: Client
  readonly #defaults: ScopeOptions

  /** @internal */
  constructor(client: Client, names: Names, defaults: ScopeOptions) {
    this.#client = client
    this.names = names
    this.#defaults = defaults
  }

  /** Runs a function under the lock: as `client.withLock`. */
  async run<T>(callback: Work<T>): Promise<T>
  async run<T>(options: ScopeOptions, callback: Work<T>): Promise<T>
  async run<T>(optionsOrCallback: ScopeOptions | Work<T>, maybeCallback?: Work<T>): Promise<T> {
    const [options, callback] = optionsAndWork<ScopeOptions, Work<T>>('run', optionsOrCallback, maybeCallback)
    return await this.#client.withLocks(this.names, { ...this.#defaults, ...options }, callback)
  }

  /** Waits for the lock: as `client.acquire`. */
  async acquire(options: AcquireOptions = {}): Promise<Guard> {
    const { detached: _, ...defaults } = this.#defaults
    return await this.#client.acquire(this.names, { ...defaults, ...options })
  }

  /** Takes the lock or leaves it: as `client.tryAcquire`. */
  async tryAcquire(options: TryOptions = {}): Promise<Guard | null> {
    const { detached: _, wait: __, requeue: ___, ...defaults } = this.#defaults
    return await this.#client.tryAcquire(this.names, { ...defaults, ...options })
  }
}
