/** How the native module is found. It is private to the package. */

import { join } from 'node:path'

/** The module; see module.ts. */
type Native = typeof import('./module')

/** The version of the package, and of the module that belongs to it. */
const { version: VERSION } = require('../package.json') as { version: string }

/**
 * The platforms as the names of the prebuilt modules have them, such as `linux-x64-gnu`. Which C library a Linux has is found
 * out by trying: the report of the process, which knows, takes longer than all the rest.
 */
function platforms(): string[] {
  const platform = `${process.platform}-${process.arch}`
  return process.platform === 'linux' ? [`${platform}-gnu`, `${platform}-musl`] : [platform]
}

/** Loads the module, or says where it was looked for and what was found there. */
function load(): Native {
  const named = process.env['LEASEHOLD_NATIVE']
  // First the one that a build of the repository puts beside the package.
  const beside = (platform: string) => join(__dirname, '..', `leasehold.${platform}.node`)
  const prebuilt = platforms().flatMap((platform) => [beside(platform), `@leasehold/${platform}`])
  const places = named === undefined ? prebuilt : [named]
  const tried: string[] = []
  for (const place of places) {
    try {
      const native = require(place) as Native
      if (native.version() === VERSION) return native
      tried.push(`${place}: has the version ${native.version()}, not ${VERSION}`)
    } catch (error) {
      tried.push(`${place}: ${error instanceof Error ? error.message.split('\n', 1)[0] : error}`)
    }
  }
  throw new Error(
    `leasehold found no native module for ${process.platform} on ${process.arch}. It tried:\n${tried.map((line) => `  ${line}\n`).join('')}` +
      'Install the package with its optional dependencies (npm install --include=optional, on the platform where it ' +
      'will run), or name a module in the environment variable LEASEHOLD_NATIVE.',
  )
}

export const native: Native = load()
