/** What an acquire claims of a name: all of it, a share, or some of a limited number of permits. */

import { invalidArgument } from './errors'
import type { Wanted } from './module'
import { checkName, checkText } from './options'

/** What is claimed of a name: all of it, if nothing else is said. */
export interface ClaimOptions {
  /** A share of it, beside any number of others that are shared: the readers of a read-write lock. Default false. */
  shared?: boolean | undefined
  /** How many of the permits that {@link of} says: a semaphore. From 1 to `of`. Default 1. */
  permits?: number | undefined
  /** How many permits there are, at most 2,147,483,647. All who use the name must say the same. */
  of?: number | undefined
}

/** One of several names, and what is claimed of it. */
export interface NameOptions extends ClaimOptions {
  /** The name. */
  name: string
}

/** A name, or several that are acquired at once, all or none: at most 32, none of them twice. */
export type Names = string | readonly (string | NameOptions)[]

/** The names, each with what is claimed of it; `claim` is for those that say nothing themselves. */
export function toWanted(names: unknown, claim: ClaimOptions): Wanted[] {
  if (!Array.isArray(names)) return [toOne(checkText('the name of a lock', names), claim)]
  return names.map((each: unknown) => {
    if (typeof each === 'string') return toOne(checkText('the name of a lock', each), claim)
    const { name, ...own } = checkName(each as NameOptions)
    return toOne(checkText('the name of a lock', name), Object.keys(own).length > 0 ? own : claim)
  })
}

/** The names as the native module takes them: one of which all is claimed by itself, because a list of objects takes longer. */
export function toNames(wanted: Wanted[]): string | Wanted[] {
  const [first] = wanted
  if (first === undefined || wanted.length > 1 || first.shared === true || first.permits !== undefined) return wanted
  return first.name
}

function toOne(name: string, { shared, permits, of }: ClaimOptions): Wanted {
  if (permits === undefined && of === undefined) return shared === undefined ? { name } : { name, shared }
  if (shared === true) throw invalidArgument('a lock is shared or has permits, not both')
  if (of === undefined) throw invalidArgument('permits need `of`: how many there are')
  return { name, permits: permits ?? 1, limit: of }
}

/** Whether somebody who waits for `asked` while the others stand waits for their end; they are of the same name. */
export function isKeptOut(asked: Wanted, others: readonly Wanted[]): boolean {
  let left = asked.limit ?? 0
  for (const other of others) {
    // Permits and shares keep each other out in another way: the core refuses them.
    if (asked.shared === true && (other.shared === true || other.permits !== undefined)) continue
    if (asked.permits !== undefined && other.shared === true) continue
    if (asked.permits === undefined || other.permits === undefined) return true
    left -= other.permits
  }
  return asked.permits !== undefined && asked.permits > left && others.length > 0
}
