/** Clients that are closed when their process is told to end. */

/** What can be closed. */
interface Closable {
  close(): Promise<void>
}

/** Who is to be closed at each signal. */
const waiting = new Map<NodeJS.Signals, Set<Closable>>()

/** What every copy of this package that the process has knows of the others: each has clients of its own. */
interface Shared {
  /** Their listeners. */
  ours: WeakSet<object>
  /** How many of them are closing clients now. */
  closing: number
}
const SHARED = Symbol.for('leasehold.closeOnSignal')
const process_ = process as unknown as { [SHARED]?: Shared }
process_[SHARED] ??= { ours: new WeakSet(), closing: 0 }
const shared = process_[SHARED]

/** Which signals, if nothing else is said. */
const USUAL: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM']

/**
 * Closes a client at the first of these signals, after which the process ends by the signal as it would have: unless somebody
 * else listens to it, who then says what becomes of the process. Returns what takes it back.
 */
export function closeOn(client: Closable, signals: true | readonly NodeJS.Signals[]): () => void {
  const those = signals === true ? USUAL : signals
  for (const signal of those) {
    const clients = waiting.get(signal) ?? new Set()
    // In front of those who are there already, so that it sees who listens before `once` has removed them.
    if (clients.size === 0) process.prependListener(signal, end)
    waiting.set(signal, clients.add(client))
  }
  return () => {
    for (const signal of those) {
      const clients = waiting.get(signal)
      if (clients?.delete(client) && clients.size === 0) process.off(signal, end)
    }
  }
}

async function end(signal: NodeJS.Signals): Promise<void> {
  const isLeft = process.listeners(signal).some((listener) => !shared.ours.has(listener))
  const clients = [...(waiting.get(signal) ?? [])]
  shared.closing += 1
  await Promise.allSettled(clients.map((client) => client.close()))
  shared.closing -= 1
  // A closed client has taken itself back, so that this handler is gone by now.
  if (!isLeft && shared.closing === 0 && process.listenerCount(signal) === 0) process.kill(process.pid, signal)
}
shared.ours.add(end)
