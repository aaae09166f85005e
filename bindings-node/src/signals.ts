/** Clients that are closed when their process is told to end. */

import { copies } from './copies'

/** What can be closed. */
interface Closable {
  close(): Promise<void>
}

/** Who is to be closed at each signal. */
const waiting = new Map<NodeJS.Signals, Set<Closable>>()

/** Which signals, if nothing else is said. */
const USUAL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM']

/** Which of them are being closed for. */
const ending = new Set<NodeJS.Signals>()

/**
 * Closes a client at the first of these signals, after which the process ends by the signal as it would have: unless somebody
 * else listens to it, who then says what becomes of the process. Returns what takes it back.
 */
export function closeOn(client: Closable, signals: true | readonly NodeJS.Signals[]): () => void {
  const those = signals === true ? USUAL : signals
  for (const signal of those) {
    const clients = waiting.get(signal) ?? new Set()
    // In front of those who are there already, so that it sees who listens before `once` has removed them.
    if (!process.listeners(signal).includes(end)) process.prependListener(signal, end)
    waiting.set(signal, clients.add(client))
  }
  return () => {
    for (const signal of those) {
      waiting.get(signal)?.delete(client)
      rest(signal)
    }
  }
}

/** Listens no more where nothing is to be closed. While something is being closed others see that somebody cares. */
function rest(signal: NodeJS.Signals): void {
  if (!ending.has(signal) && waiting.get(signal)?.size === 0) process.off(signal, end)
}

async function end(signal: NodeJS.Signals): Promise<void> {
  const others = process.listeners(signal).filter((listener) => !copies.listeners.has(listener))
  const isLeft = others.length > undecided(signal)
  if (!ending.has(signal)) {
    ending.add(signal)
    copies.closing += 1
    await Promise.allSettled([...(waiting.get(signal) ?? [])].map((client) => client.close()))
    copies.closing -= 1
    ending.delete(signal)
    rest(signal)
    if (isLeft || copies.closing > 0) return
  }
  // The end, or the second signal, for which the end does not wait.
  if (isLeft) return
  process.off(signal, end)
  if (process.listenerCount(signal) === undecided(signal)) process.kill(process.pid, signal)
}
copies.listeners.add(end)

/**
 * How many listeners are those of npm's signal-exit, which many packages bring along, in both its versions. They decide nothing:
 * alone, they end the process by the signal, and beside others they leave that to them.
 */
function undecided(signal: NodeJS.Signals): number {
  if (!['SIGHUP', 'SIGINT', 'SIGTERM'].includes(signal)) return 0
  const places = [
    (process as unknown as Record<string, unknown>)['__signal_exit_emitter__'],
    (globalThis as Record<symbol, unknown>)[Symbol.for('signal-exit emitter')],
  ]
  return places.reduce<number>((sum, place) => sum + ((place as { count?: number } | undefined)?.count ?? 0), 0)
}
