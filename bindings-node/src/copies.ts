/**
 * What the copies of this package know of each other: a process has several where test runners and development servers load it
 * again, and where a bundle has one of its own.
 */

interface Copies {
  /** Their listeners to signals. */
  listeners: WeakSet<object>
  /** How many of them are closing clients now, told by a signal. */
  closing: number
  /** What they do at the end of the process. */
  exits: Set<() => void>
}

/** Of this shape. Not at `process`, whose properties Jest copies for each of its realms. */
const PLACE = Symbol.for('leasehold.copies.1')
const place = globalThis as { [PLACE]?: Copies }
place[PLACE] ??= { listeners: new WeakSet(), closing: 0, exits: new Set() }

export const copies: Copies = place[PLACE]

/** At the end of the process. One listener for all: Node warns of a leak where there are more than ten. */
export function atExit(work: () => void): void {
  const { exits } = copies
  if (exits.size === 0) {
    process.once('exit', () => {
      for (const each of exits) each()
    })
  }
  exits.add(work)
}
