/**
 * An emitter whose listeners live as long as what tells them, not as long as itself.
 *
 * Whoever forgets a guard and has a listener on it is still told of the loss. The listeners are therefore kept by an emitter
 * behind this one, which knows nothing of it: so what is forgotten can be collected, and warned about.
 */

import { EventEmitter } from 'node:events'

type Method = (...args: unknown[]) => unknown

/** What adds a listener; those that begin so put it in front. */
const ADDS = ['addListener', 'on', 'once', 'prependListener', 'prependOnceListener']
const IN_FRONT = 'prepend'

export abstract class Emitter<Events extends Record<keyof Events, unknown[]>> extends EventEmitter<Events> {
  #behind: EventEmitter | undefined

  /** What keeps the listeners, and tells them. */
  protected get behind(): EventEmitter {
    this.#behind ??= new EventEmitter()
    return this.#behind
  }

  /** Called after a listener was added; `listener` is what the emitter behind has of it. */
  protected abstract listened(event: keyof Events, listener: Method): void

  static {
    const methods = EventEmitter.prototype as unknown as Record<string, unknown>
    for (const name of Object.getOwnPropertyNames(methods)) {
      const method = methods[name]
      if (typeof method !== 'function' || name === 'constructor') continue
      const value = function (this: Emitter<never>, ...args: unknown[]): unknown {
        const result = Reflect.apply(method as Method, this.behind, args)
        if (ADDS.includes(name)) {
          const event = args[0] as never
          const listener = this.behind.rawListeners(event).at(name.startsWith(IN_FRONT) ? 0 : -1)
          this.listened(event, listener as Method)
        }
        return result === this.behind ? this : result
      }
      Object.defineProperty(Emitter.prototype, name, { value, configurable: true, writable: true })
    }
  }
}
