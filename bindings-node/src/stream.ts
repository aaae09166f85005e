/** What a subscription brings, for `for await`: kept while nobody asks, up to a bound. */

import { onAbort, reasonOf } from './aborts'
import { type Begin, brought, operations, type Result } from './operations'

/** How many are kept. Beyond that the oldest goes, and whoever asks then is told that one is missing. */
const KEPT = 1_024

/** Somebody who waits for the next. */
interface Waiting<Told> {
  resolve(result: IteratorResult<Told, undefined>): void
  reject(error: unknown): void
}

/**
 * Nothing is asked for before the first `next`. Ended by `return`, which a loop calls that is left. Keeps its process alive while
 * somebody waits for the next.
 */
export abstract class Stream<Brought, Told> implements AsyncIterableIterator<Told, undefined> {
  readonly #begin: Begin
  readonly #signal: AbortSignal | undefined
  readonly #kept: Brought[] = []
  readonly #waiting: Waiting<Told>[] = []
  #hasLost = false
  #cancel: (() => void) | undefined
  /** Set at its end: throws what it ended with, once. */
  #end: (() => void) | undefined

  /** @internal */
  constructor(begin: Begin, signal: AbortSignal | undefined) {
    this.#begin = begin
    this.#signal = signal
  }

  /** What is told of what was brought; `hasLost` if some were not told before it. */
  protected abstract tell(brought: Brought, hasLost: boolean): Told

  next(): Promise<IteratorResult<Told, undefined>> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      if (this.#waiting.length === 1) operations().environment.hold()
      if (this.#cancel === undefined && this.#end === undefined) this.#start()
      this.#settle()
    })
  }

  async return(): Promise<IteratorResult<Told, undefined>> {
    this.#kept.length = 0
    this.#over(() => {})
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  #start(): void {
    const signal = this.#signal
    const abort = () => {
      this.#kept.length = 0
      this.#over(() => {
        throw reasonOf(signal as AbortSignal)
      })
    }
    if (signal?.aborted) {
      abort()
      return
    }
    try {
      const cancel = operations().stream<Brought>(this.#begin, (result, isLast) => this.#take(result, isLast))
      const left = signal && onAbort(signal, abort)
      this.#cancel = () => {
        left?.()
        cancel()
      }
    } catch (error) {
      this.#over(() => {
        throw error
      })
    }
  }

  #take(result: Result<Brought | undefined>, isLast: boolean): void {
    if (isLast) {
      this.#over(() => void brought(result))
      return
    }
    if (this.#end !== undefined) return
    this.#kept.push(brought(result) as Brought)
    if (this.#kept.length > KEPT) {
      this.#kept.shift()
      this.#hasLost = true
    }
    this.#settle()
  }

  #over(end: () => void): void {
    if (this.#end !== undefined) return
    this.#end = end
    this.#cancel?.()
    this.#settle()
  }

  /** Serves those who wait, as far as there is something to say. */
  #settle(): void {
    while (this.#waiting.length > 0) {
      if (this.#kept.length === 0 && this.#end === undefined) return
      const { resolve, reject } = this.#waiting.shift() as Waiting<Told>
      if (this.#waiting.length === 0) operations().environment.letGo()
      if (this.#kept.length > 0) {
        const hasLost = this.#hasLost
        this.#hasLost = false
        resolve({ done: false, value: this.tell(this.#kept.shift() as Brought, hasLost) })
        continue
      }
      try {
        const end = this.#end
        this.#end = () => {}
        end?.()
        resolve({ done: true, value: undefined })
      } catch (error) {
        reject(error)
      }
    }
  }
}
