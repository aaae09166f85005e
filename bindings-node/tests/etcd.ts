/** The etcd of all tests: started before them by the harness, which ends it when this process is gone. */

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    endpoint: string
    etcdctl: string
    etcd: string
  }
}

/** Where cargo builds. */
export const target = execFileSync(join(import.meta.dirname, '../../scripts/target'), { encoding: 'utf8' }).trim()

export default async function setup(project: TestProject) {
  const harness = spawn(`${target}/debug/leasehold-etcd`, [], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: harness.stdout })
  const [line] = (await Promise.race([
    once(lines, 'line'),
    once(harness, 'exit').then(() => {
      throw new Error('the harness ended before etcd was there')
    }),
  ])) as [string]
  const { endpoints, etcd, etcdctl } = JSON.parse(line)
  project.provide('endpoint', endpoints[0])
  project.provide('etcd', etcd)
  project.provide('etcdctl', etcdctl)
  return async () => {
    harness.stdin.end()
    await once(harness, 'exit')
  }
}
