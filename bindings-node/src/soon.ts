/**
 * `setImmediate`, as it was when this package was loaded: test runners put fake ones in the place of the real ones, which would
 * keep a loss from those who are to be told.
 */

import { setImmediate } from 'node:timers'

export const soon: (callback: () => void) => unknown = setImmediate
