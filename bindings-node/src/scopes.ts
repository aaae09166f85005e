/**
 * Which locks the code that runs now is inside of, by `withLock`, across its awaits. Only the host's language knows that.
 */

import { AsyncLocalStorage } from 'node:async_hooks'

/** A callback of `withLock` that has not ended. */
interface Scope {
  owner: object
  name: string
  isOver: boolean
  outer: Scope | undefined
}

// Made at the first use: while there is one, Node 20 and 22 follow every promise of the process.
let storage: AsyncLocalStorage<Scope> | undefined

/** Whether the code that runs now is inside a scope of this name and owner that has not ended. */
export function isInside(owner: object, name: string): boolean {
  for (let scope = storage?.getStore(); scope !== undefined; scope = scope.outer) {
    // What a callback left running after its end may take the lock again: it waits for nobody who waits for it.
    if (!scope.isOver && scope.owner === owner && scope.name === name) return true
  }
  return false
}

/** Runs `work` inside a scope. */
export async function inside<T>(owner: object, name: string, work: () => T | PromiseLike<T>): Promise<T> {
  storage ??= new AsyncLocalStorage()
  const scope: Scope = { owner, name, isOver: false, outer: storage.getStore() }
  try {
    return await storage.run(scope, work)
  } finally {
    scope.isOver = true
  }
}
