/** How the native module is found. It is private to the package. */

import { dirname, join, resolve } from 'node:path'

/** The module; see module.ts. */
type Native = typeof import('./module')

/** The version of the package, and of the module that belongs to it. */
const { version: VERSION } = require('../package.json') as { version: string }

/** Where this file is; undefined where a bundler has made an ECMAScript module of it. */
const HERE = typeof __dirname === 'string' ? __dirname : undefined

/** The platforms that there are prebuilt modules for. */
const PLATFORMS = [
  'linux-x64-gnu',
  'linux-arm64-gnu',
  'linux-x64-musl',
  'linux-arm64-musl',
  'darwin-x64',
  'darwin-arm64',
]

/**
 * The prebuilt module for a platform. Written out, and within a `try`, so that bundlers and tracers of files find those that
 * are installed, and do not ask for the others. What stands in front of each is for whoever has not told esbuild what a `.node`
 * file is: it shows the line.
 */
function prebuilt(platform: string): unknown {
  try {
    switch (platform) {
      case 'linux-x64-gnu':
        return /* --loader:.node=copy */ require('@leasehold/linux-x64-gnu')
      case 'linux-arm64-gnu':
        return /* --loader:.node=copy */ require('@leasehold/linux-arm64-gnu')
      case 'linux-x64-musl':
        return /* --loader:.node=copy */ require('@leasehold/linux-x64-musl')
      case 'linux-arm64-musl':
        return /* --loader:.node=copy */ require('@leasehold/linux-arm64-musl')
      case 'darwin-x64':
        return /* --loader:.node=copy */ require('@leasehold/darwin-x64')
      case 'darwin-arm64':
        return /* --loader:.node=copy */ require('@leasehold/darwin-arm64')
    }
    return new Error('nobody has built it')
  } catch (error) {
    return error
  }
}

/** The module in a file. Not by `require`, which bundlers take for themselves. */
function fromFile(path: string): unknown {
  const module = { exports: {} }
  try {
    process.dlopen(module, path)
    return module.exports
  } catch (error) {
    return error
  }
}

/**
 * The platforms that this may be, as the names of the prebuilt modules have them. Which C library a Linux has is found out by
 * trying: the report of the process, which knows, takes longer than all the rest.
 */
function candidates(): string[] {
  const platform = `${process.platform}-${process.arch}`
  return process.platform === 'linux' ? [`${platform}-gnu`, `${platform}-musl`] : [platform]
}

/** What there is to try, in this order: a name for people, and what it brings. */
function* places(): Generator<[string, unknown]> {
  const named = process.env['LEASEHOLD_NATIVE']
  if (named !== undefined) {
    yield [named, fromFile(resolve(named))]
    return
  }
  for (const platform of candidates()) {
    if (HERE !== undefined) {
      // The one that a build of the repository puts beside the package.
      const beside = join(HERE, '..', `leasehold.${platform}.node`)
      yield [beside, fromFile(beside)]
    }
    const found = prebuilt(platform)
    // A bundler that puts the file beside its bundle may give its path instead.
    const bundle = HERE ?? dirname(process.argv[1] ?? '')
    yield [`@leasehold/${platform}`, typeof found === 'string' ? fromFile(resolve(bundle, found)) : found]
  }
}

/** Loads the module, or says where it was looked for, what was found there and what to do. */
function load(): Native {
  const tried: string[] = []
  for (const [place, found] of places()) {
    const { version, message } = found as { version?: () => string; message?: string }
    if (typeof version === 'function') {
      if (version() === VERSION) return found as Native
      tried.push(`${place}: has the version ${version()}, not ${VERSION}`)
    } else {
      tried.push(`${place}: ${message?.split('\n', 1)[0] ?? 'is no native module'}`)
    }
  }
  throw new Error(
    `leasehold found no native module for ${process.platform} on ${process.arch}. It tried:\n` +
      `${tried.map((line) => `  ${line}\n`).join('')}${advice()}, or name a module in the environment variable LEASEHOLD_NATIVE.`,
  )
}

/** What to do where none was found: that depends on which are installed. */
function advice(): string {
  const codes = new Map(PLATFORMS.map((platform) => [platform, (prebuilt(platform) as { code?: string }).code]))
  if ([...codes.values()].includes('ERR_DLOPEN_DISABLED')) {
    return 'This process may load no native modules: where it has --permission, add --allow-addons; leave --no-addons out'
  }
  const installed = PLATFORMS.filter((platform) => codes.get(platform) !== 'MODULE_NOT_FOUND')
  if (installed.length === 0) {
    return (
      'The native modules are optional dependencies of the package, and none is installed. Install with them (npm install ' +
      '--include=optional, and no --omit=optional or --no-optional), on the platform where it will run; a bundle needs the ' +
      'module beside it'
    )
  }
  return (
    `node_modules has the one for ${installed.join(', ')}. If this is another platform, it was installed elsewhere, or copied ` +
    'from an image of another kind (Debian has glibc, Alpine musl): install it where it will run (npm ci). It needs glibc ' +
    '2.28 or newer'
  )
}

export const native: Native = load()
