/** Says at the end how many tests there were, in the words that the project's summary is made of. */

import type { Reporter, TestCase, TestModule } from 'vitest/node'

export default class Count implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const count = (state: string) => tests.filter((test) => test.result().state === state).length
    for (const test of tests)
      if (test.result().state === 'skipped') console.log(`SKIPPED ${test.fullName}: ${why(test)}`)
    for (const test of tests) if (test.result().state === 'failed') console.log(`FAILED ${test.fullName}`)
    // A file that could not be loaded has no tests, and has failed.
    const broken = modules.filter((module) => module.state() === 'failed' && module.errors().length > 0).length
    console.log(`${count('passed')} passed, ${count('failed') + broken} failed, ${count('skipped')} skipped`)
  }
}

function why(test: TestCase): string {
  const result = test.result()
  return (result.state === 'skipped' && result.note) || 'no reason given'
}
