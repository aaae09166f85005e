/** Reports how many tests there were for the project's summary: as JSON, in the file that LEASEHOLD_REPORT names. */

import { writeFileSync } from 'node:fs'
import type { Reporter, TestCase, TestModule } from 'vitest/node'

export default class Count implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const place = process.env['LEASEHOLD_REPORT']
    if (!place) return
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const those = (state: string) => tests.filter((test) => test.result().state === state)
    // A file that could not be loaded has no tests, and has failed.
    const broken = modules.filter((module) => module.state() === 'failed' && module.errors().length > 0)
    const failures = [...those('failed').map((test) => test.fullName), ...broken.map((module) => module.moduleId)]
    const skips = those('skipped').map((test) => `${test.fullName}: ${why(test)}`)
    const [passed, failed, skipped] = [those('passed').length, failures.length, skips.length]
    writeFileSync(place, JSON.stringify({ passed, failed, skipped, failures, skips }))
  }
}

function why(test: TestCase): string {
  const result = test.result()
  return (result.state === 'skipped' && result.note) || 'no reason given'
}
