/**
 * The examples of the pages as programs: every block of `js` and `ts` in the READMEs and in the guide.
 *
 * One that imports or requires something is a program. One without is the inside of a module that has a `client`.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')
const PAGES = ['README.md', 'bindings-node/README.md', 'docs/node.md', 'docs/migrating-node.md']
const ADDRESS = 'http://127.0.0.1:2379'

/** An example, at its line of its page. */
export interface Example {
  page: string
  line: number
  /** How its file ends: `mjs`, `cjs`, or `mts`. */
  kind: string
  code: string
  /** Whether it serves HTTP until it is told to end. */
  isServer: boolean
  /** Whether it has a queue in Redis. */
  needsRedis: boolean
}

export function examples(): Example[] {
  return PAGES.flatMap((page) => {
    const blocks = readFileSync(join(ROOT, page), 'utf8').matchAll(/^```(js|ts)\n([\s\S]*?)^```$/gm)
    return [...blocks].map(({ index, input, 1: language, 2: code = '' }) => ({
      page,
      line: input.slice(0, index).split('\n').length,
      kind: language === 'ts' ? 'mts' : /\brequire\(/.test(code) ? 'cjs' : 'mjs',
      code: /\brequire\(|^import /m.test(code) ? code : inside(code),
      isServer: code.includes('3000'),
      needsRedis: code.includes('6379'),
    }))
  })
}

/** The example with the address of this etcd, with this port if it is a server, and with this one of Redis. */
export function at(example: Example, endpoint: string, port: number, redis: number | undefined): string {
  return example.code.replaceAll(ADDRESS, endpoint).replaceAll('3000', String(port)).replaceAll('6379', String(redis))
}

function inside(code: string): string {
  return `import { Client } from 'leasehold'\nconst client = new Client('${ADDRESS}')\n${code}\nawait client.close()\n`
}
