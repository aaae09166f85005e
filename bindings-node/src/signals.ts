/** Clients that are closed when their process is told to end. */

/** What can be closed. */
interface Closable {
  close(): Promise<void>
}

/** Who is to be closed at each signal. */
const waiting = new Map<NodeJS.Signals, Set<Closable>>()

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
    if (clients.size === 0) process.on(signal, end)
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
  const clients = [...(waiting.get(signal) ?? [])]
  await Promise.allSettled(clients.map((client) => client.close()))
  // A closed client has taken itself back, so that this handler is gone by now.
  if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
}
