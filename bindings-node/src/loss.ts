/**
 * How a loss is told: to the listeners and to the signal of a guard, each once, in time or late.
 *
 * It outlives the guard, and knows nothing of it: see emitter.ts.
 */

import type { EventEmitter } from 'node:events'
import { type LostReason, toError } from './errors'
import { native } from './native'
import { soon } from './soon'

export class Loss {
  readonly #name: string
  readonly #listeners: EventEmitter
  #controller: AbortController | undefined
  #told: LostReason | undefined

  constructor(name: string, listeners: EventEmitter) {
    this.#name = name
    this.#listeners = listeners
  }

  /** Aborts when the loss is told; at once if `known` says that it is lost. */
  signal(known: LostReason | undefined): AbortSignal {
    this.#controller ??= new AbortController()
    if (known !== undefined) this.#abort(known)
    return this.#controller.signal
  }

  /** Tells everybody. Called at most once. */
  tell(reason: LostReason): void {
    this.#told = reason
    this.#abort(reason)
    this.#listeners.emit('lost', reason)
  }

  /** Tells a listener that was added after everybody was told, unless it is removed before it is its turn. */
  catchUp(listener: (...args: unknown[]) => unknown): void {
    const reason = this.#told
    if (reason === undefined) return
    // After whoever adds it is done, and what waits for him.
    soon(() => {
      if (this.#listeners.rawListeners('lost').includes(listener)) Reflect.apply(listener, this.#listeners, [reason])
    })
  }

  #abort(reason: LostReason): void {
    if (this.#controller?.signal.aborted === false) this.#controller.abort(toError(native.lost(this.#name, reason)))
  }
}
