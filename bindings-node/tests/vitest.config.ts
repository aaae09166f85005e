import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['*.test.ts'],
    globalSetup: './etcd.ts',
    // Native modules are loaded once a process; a process for each file keeps the files apart.
    pool: 'forks',
    maxWorkers: 2,
    // Longer than whatever waits for something within a test.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    reporters: ['default', './count.ts'],
  },
})
