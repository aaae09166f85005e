/** A Redis in memory on loopback, for the recipes that have a queue in one. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Port } from '../src/ports'

export interface Redis extends AsyncDisposable {
  port: number
}

/** Starts it, and waits until it takes connections. */
export async function startRedis(): Promise<Redis> {
  const port = await Port.reserve()
  const words = ['--port', String(port.number), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  const child = spawn(join(import.meta.dirname, '../../scripts/redis.sh'), words, {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  let said = ''
  await new Promise<void>((resolve, reject) => {
    ended.then(() => reject(new Error(`Redis ended before it was ready; it said:\n${said}`)), reject)
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
      if (said.includes('Ready to accept connections')) resolve()
    })
  })
  return {
    port: port.number,
    async [Symbol.asyncDispose]() {
      child.kill()
      await ended
      port.release()
    },
  }
}
