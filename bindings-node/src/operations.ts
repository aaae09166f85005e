/**
 * Operations of this thread: started natively, completed here as promises, cancelled by an `AbortSignal`.
 *
 * What wakes the event loop keeps it alive only while somebody waits for a promise. A lock that is held, or a client that
 * is idle, never does.
 */

import { AsyncResource } from 'node:async_hooks'
import { isMainThread } from 'node:worker_threads'
import { onAbort, reasonOf } from './aborts'
import { atExit } from './copies'
import { fromThrown, toError } from './errors'
import type { Environment, Failure } from './module'
import { native } from './native'
import { soon } from './soon'

/** What an operation failed with, on its way to whoever waits for it. */
class Failed {
  constructor(readonly failure: Failure) {}
}

/** What an operation brought or failed with. */
export type Result<T> = T | Failed

/** What an operation brought; throws what it failed with. Called by whoever waits for it: so the stack leads there. */
export function brought<T>(result: Result<T>): T {
  if (result instanceof Failed) throw toError(result.failure)
  return result
}

/** Starts an operation that completes under `tag`, once or several times; returns what cancels it. */
export type Begin = (tag: number) => number

/** Takes what an operation brings; nothing follows the last. */
type Taker = (result: Result<never>, isLast: boolean) => void

/** Where completions are taken: not in the asynchronous context of the request that was the first to use the package. */
const CONTEXT = new AsyncResource('leasehold')

/** The tag under which the environment tells of guards that were forgotten, by the names of their locks. */
const FORGOTTEN = 0

class Operations {
  readonly environment: Environment
  /** The environment's, which makes a function for whoever reads it. */
  readonly release: Environment['release']
  /** Who takes what an operation brings, by its tag, until it is over. */
  readonly #takers: (Taker | undefined)[] = []
  /** The tags of operations that are over. */
  readonly #free: number[] = []

  constructor() {
    this.#takers[FORGOTTEN] = (name: Result<string>) => warn(brought(name))
    this.environment = CONTEXT.runInAsyncScope(
      () => new native.Environment((...flat) => this.#complete(flat), !isMainThread),
    )
    this.release = this.environment.release
    // The environment's clients release what they hold, for as long as their `exitTimeout` allows.
    atExit(() => this.environment.exit())
  }

  /**
   * Starts an operation and resolves to what it brings, for {@link brought}.
   *
   * Aborted, it rejects with the signal's reason as soon as the core has taken the operation back; what it had brought by
   * then goes to `discard`.
   */
  run<T>(begin: Begin, signal?: AbortSignal, discard?: (value: T) => Promise<unknown>): Promise<Result<T>> {
    if (signal !== undefined) return this.#unlessAborted(begin, signal, discard)
    return new Promise((resolve) => {
      this.#start(begin, resolve)
    })
  }

  /** Starts an operation that brings several values, or one much later. Returns what ends it. */
  subscribe<T>(begin: Begin, listener: (value: T | undefined) => void): () => void {
    let isOver = false
    const operation = this.#start(begin, (result: Result<T | undefined>) => {
      if (isOver || result instanceof Failed) return
      // On its own: what a user's listener throws must not keep the others from their completions. It is thrown all the same,
      // but to nobody's promise.
      Promise.resolve(result)
        .then(listener)
        .catch((error) => {
          soon(() => {
            throw error
          })
        })
    })
    return () => {
      isOver = true
      this.environment.cancel(operation)
    }
  }

  /** Starts an operation that brings several values, and its end, to somebody who waits for them. Returns what ends it. */
  stream<T>(begin: Begin, taker: (result: Result<T | undefined>, isLast: boolean) => void): () => void {
    const operation = this.#start(begin, taker)
    return () => this.environment.cancel(operation)
  }

  async #unlessAborted<T>(
    begin: Begin,
    signal: AbortSignal,
    discard?: (value: T) => Promise<unknown>,
  ): Promise<Result<T>> {
    if (signal.aborted) throw reasonOf(signal)
    let settle: (result: Result<T>) => void = () => {}
    const completion = new Promise<Result<T>>((resolve) => {
      settle = resolve
    })
    // First: if it throws, nobody listens yet.
    const operation = this.#start(begin, settle)
    const left = onAbort(signal, () => this.environment.cancel(operation))
    const result = await completion
    left()
    if (!signal.aborted) return result
    if (!(result instanceof Failed)) await discard?.(result)
    throw reasonOf(signal)
  }

  /** Starts an operation. Returns what cancels it. */
  #start(begin: Begin, taker: Taker): number {
    const tag = this.#free.pop() ?? this.#takers.length
    this.#takers[tag] = taker
    try {
      return begin(tag)
    } catch (error) {
      // A bug of ours, so that nobody knows what still comes: the tag is not used again.
      this.#takers[tag] = undefined
      throw fromThrown(error)
    }
  }

  /** Takes what operations brought: four values for each, its tag, whether it is the last, its failure, its value. */
  #complete(flat: unknown[]): void {
    for (let index = 0; index < flat.length; index += 4) {
      const tag = flat[index] as number
      const failure = flat[index + 2] as Failure | null
      const take = this.#takers[tag]
      const isLast = flat[index + 1] as boolean
      if (isLast) {
        this.#takers[tag] = undefined
        this.#free.push(tag)
      }
      take?.((failure === null ? flat[index + 3] : new Failed(failure)) as Result<never>, isLast)
    }
  }
}

/** A guard was collected while it held this lock. */
function warn(name: string): void {
  process.emitWarning(
    `the lock ${JSON.stringify(name)} was forgotten: its guard was garbage collected while it held it. It stays locked until ` +
      'its client is closed or the process ends; release guards in `finally`, or use withLock',
    { type: 'LeaseholdWarning', code: 'LEASEHOLD_FORGOTTEN_GUARD' },
  )
}

let ours: Operations | undefined

/** This thread's. Made at the first use: importing the package starts nothing. */
export function operations(): Operations {
  ours ??= new Operations()
  return ours
}
