/** Events that are asked for only if somebody listens. */

import type { EventEmitter } from 'node:events'

/** Calls `ask` before each listener to `event` is added. */
export function whenListened(emitter: EventEmitter, event: string, ask: () => void): void {
  emitter.on('newListener', (added) => {
    if (added === event) ask()
  })
}
