/**
 * Timers as they were when this package was loaded: test runners put fake ones in the place of the real ones, which would keep a
 * loss from those who are to be told.
 */

import { setImmediate } from 'node:timers'
import { setTimeout } from 'node:timers/promises'

export const soon: (callback: () => void) => unknown = setImmediate
/** Resolves after so many milliseconds. */
export const pause: (span: number) => Promise<void> = setTimeout
