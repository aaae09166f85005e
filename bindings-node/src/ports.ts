/** Ports of loopback that are kept for one server, for this package's own tests and those of its users. */

import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/**
 * A port that nobody else is given until it is released.
 *
 * On it stands a connection to this very process. While it does, the kernel gives the port to nobody who asks for any, and
 * picks it for no outgoing connection. A server that is started with this port can still listen on it, also anew: it ignores
 * connections, as every server that can be restarted does (`SO_REUSEADDR`).
 */
export class Port {
  readonly number: number
  readonly #ends: Socket[]

  private constructor(number: number, ends: Socket[]) {
    this.number = number
    this.#ends = ends
    for (const end of ends) end.unref()
  }

  /** Any that is free. */
  static async reserve(): Promise<Port> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const accepted = once(server, 'connection')
    const here = connect(port, '127.0.0.1')
    const [there] = (await accepted) as [Socket]
    if (here.connecting) await once(here, 'connect')
    // It listens no more; what was accepted stays.
    server.close()
    return new Port(port, [here, there])
  }

  /** Gives it back. A second call does nothing. */
  release(): void {
    for (const end of this.#ends) end.destroy()
  }

  /** As {@link release}. */
  [Symbol.dispose](): void {
    this.release()
  }
}
