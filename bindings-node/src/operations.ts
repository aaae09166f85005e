/**
 * Operations of this thread: started natively, completed here as promises, cancelled by an `AbortSignal`.
 *
 * What wakes the event loop keeps it alive only while somebody waits for a promise. A lock that is held, or a client that
 * is idle, never does.
 */

import { isMainThread } from 'node:worker_threads'
import { fromThrown, toError } from './errors'
import type { Environment, Failure } from './module'
import { native } from './native'

/** The result of an operation. Without a failure, `value` is what it brought. */
interface Completed {
  failure: Failure | null
  value: unknown
}

/** Starts an operation that completes under `tag`, once or several times; returns what cancels it. */
type Begin = (tag: number) => number

class Operations {
  readonly environment: Environment
  /** Who takes what an operation brings, by its tag, until it is over. */
  readonly #takers = new Map<number, (completed: Completed) => void>()
  #tags = 0

  constructor() {
    this.environment = new native.Environment((...flat) => this.#complete(flat), !isMainThread)
    // The environment's clients release what they hold, for as long as their `exitTimeout` allows.
    process.once('exit', () => this.environment.exit())
  }

  /**
   * Starts an operation and resolves to what it brings.
   *
   * Aborted, it rejects with the signal's reason as soon as the core has taken the operation back; what it had brought by
   * then goes to `discard`.
   */
  async run<T>(begin: Begin, signal?: AbortSignal, discard?: (value: T) => Promise<unknown>): Promise<T> {
    signal?.throwIfAborted()
    const tag = ++this.#tags
    const operation = start(begin, tag)
    const completion = new Promise<Completed>((resolve) => this.#takers.set(tag, resolve))
    const completed = signal === undefined ? await completion : await this.#unlessAborted(completion, operation, signal)
    if (signal?.aborted) {
      if (completed.failure === null) await discard?.(completed.value as T)
      throw signal.reason
    }
    // Made here rather than in the loop that drains: so its stack leads through the caller.
    if (completed.failure !== null) throw toError(completed.failure)
    return completed.value as T
  }

  /** Starts an operation that brings several values, or one much later. Returns what ends it. */
  subscribe<T>(begin: Begin, listener: (value: T | undefined) => void): () => void {
    const tag = ++this.#tags
    const operation = start(begin, tag)
    this.#takers.set(tag, ({ failure, value }) => {
      // On its own: what a user's listener throws must not keep the others from their completions.
      if (failure === null) queueMicrotask(() => listener(value as T | undefined))
    })
    return () => {
      this.#takers.delete(tag)
      this.environment.cancel(operation)
    }
  }

  async #unlessAborted(completion: Promise<Completed>, operation: number, signal: AbortSignal): Promise<Completed> {
    const cancel = () => this.environment.cancel(operation)
    signal.addEventListener('abort', cancel, { once: true })
    try {
      return await completion
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  }

  /** Takes what operations brought: four values for each, its tag, whether it is the last, its failure, its value. */
  #complete(flat: unknown[]): void {
    for (let index = 0; index < flat.length; index += 4) {
      const [tag, isLast] = [flat[index] as number, flat[index + 1] as boolean]
      const take = this.#takers.get(tag)
      if (isLast) this.#takers.delete(tag)
      take?.({ failure: flat[index + 2] as Failure | null, value: flat[index + 3] })
    }
  }
}

function start(begin: Begin, tag: number): number {
  try {
    return begin(tag)
  } catch (error) {
    throw fromThrown(error)
  }
}

let ours: Operations | undefined

/** This thread's. Made at the first use: importing the package starts nothing. */
export function operations(): Operations {
  ours ??= new Operations()
  return ours
}
