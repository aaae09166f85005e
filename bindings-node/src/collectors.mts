/** `leasehold/metrics` for `import`: the same module. */

export * from './collectors.js'
