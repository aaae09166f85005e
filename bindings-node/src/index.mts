/** The package for `import`: the same module, so that both ways to load it share their classes. */

export * from './index.js'
