/** What listens to the signals that users give: one listener for each signal, however many operations wait by it. */

/** Who is to be told, by the signals that have a listener of ours. */
const waiting = new WeakMap<AbortSignal, Set<() => void>>()

/** Why it was aborted. Signals of older libraries do not say. */
export function reasonOf(signal: AbortSignal): unknown {
  return signal.reason ?? new DOMException('This operation was aborted', 'AbortError')
}

/**
 * Calls `told` when the signal aborts; returns what takes that back. A signal that ends a whole server has hundreds of
 * operations, and Node warns of a leak where it has more than ten listeners.
 */
export function onAbort(signal: AbortSignal, told: () => void): () => void {
  const present = waiting.get(signal)
  const those = present ?? new Set()
  if (present === undefined) {
    waiting.set(signal, those)
    signal.addEventListener('abort', abort, { once: true })
  }
  those.add(told)
  return () => {
    those.delete(told)
    if (those.size > 0 || waiting.get(signal) !== those) return
    waiting.delete(signal)
    signal.removeEventListener('abort', abort)
  }

  function abort(): void {
    waiting.delete(signal)
    // Signals of older libraries may not know `once`.
    signal.removeEventListener('abort', abort)
    for (const each of those) each()
  }
}
