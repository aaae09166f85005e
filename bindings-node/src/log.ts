/** What the core has to say, on a channel of `node:diagnostics_channel`. */

import { channel } from 'node:diagnostics_channel'
import { isMainThread } from 'node:worker_threads'
import { invalidArgument } from './errors'
import type { LogLine } from './module'
import { operations } from './operations'

const LEVELS = ['off', 'error', 'warn', 'info', 'debug', 'trace'] as const

/** How much the core says. */
export type LogLevel = (typeof LEVELS)[number]

/** A message on the channel `leasehold:log`. It holds no secret. */
export interface LogRecord {
  /** How bad it is. */
  level: Exclude<LogLevel, 'off'>
  /** The module of the core that it comes from. */
  target: string
  /** What happened, with its details as `name=value`. */
  message: string
}

const log = channel('leasehold:log')
let isSet = false

/**
 * What is published on the channel `leasehold:log`, from this level up. Default: `warn`, in the main thread.
 *
 * The core is one for the whole process, and so is what it says: it goes to the thread that asked last.
 */
export function setLogLevel(level: LogLevel): void {
  const number = LEVELS.indexOf(level)
  if (number < 0) throw invalidArgument(`a log level is one of ${LEVELS.join(', ')}`)
  isSet = true
  operations().subscribe<LogLine>(
    (tag) => {
      operations().environment.listen(tag, number)
      return 0
    },
    (line) => {
      if (line === undefined || !log.hasSubscribers) return
      const { target, message } = line
      log.publish({ level: LEVELS[line.level] ?? 'error', target, message })
    },
  )
}

/** With the first client, unless somebody has said what he wants. */
export function listenByDefault(): void {
  if (!isSet && isMainThread) setLogLevel('warn')
  isSet = true
}
