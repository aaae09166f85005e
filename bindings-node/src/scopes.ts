/**
 * Which locks the code that runs now is inside of, by `withLock`, across its awaits. Only the host's language knows that.
 */

import { AsyncLocalStorage } from 'node:async_hooks'
import type { Guard } from './guard'
import type { Wanted } from './module'

/** A callback that runs under a lock. */
export interface Scope {
  /** The client that holds it. */
  owner: object
  guard: Guard
  /** Its names, and what it has of them. */
  wanted: readonly Wanted[]
  /** Whether nobody outside waits for this callback, so that it waits for nobody outside. */
  isDetached: boolean
}

/** A scope, and the one around it. */
interface Nested extends Scope {
  isOver: boolean
  outer: Nested | undefined
}

// Made at the first use: while there is one, Node 20 and 22 follow every promise of the process.
let storage: AsyncLocalStorage<Nested> | undefined

/** The scopes around the code that runs now that wait for it, from the inside out. */
export function* scopesAround(): Generator<Scope> {
  for (let scope = storage?.getStore(); scope !== undefined; scope = scope.isDetached ? undefined : scope.outer) {
    // What a callback left running after its end may take the lock again: it waits for nobody who waits for it.
    if (!scope.isOver) yield scope
  }
}

/** Runs `work` inside a scope. */
export async function inside<T>(scope: Scope, work: () => T | PromiseLike<T>): Promise<T> {
  storage ??= new AsyncLocalStorage()
  const nested: Nested = { ...scope, isOver: false, outer: storage.getStore() }
  try {
    return await storage.run(nested, work)
  } finally {
    nested.isOver = true
  }
}

/**
 * The guard of the innermost `withLock` that the code runs in, across awaits; undefined outside of any. With a name, the
 * innermost that holds this name.
 */
export function currentGuard(name?: string): Guard | undefined {
  for (let scope = storage?.getStore(); scope !== undefined; scope = scope.outer) {
    if (!scope.isOver && (name === undefined || scope.wanted.some((held) => held.name === name))) return scope.guard
  }
  return undefined
}
