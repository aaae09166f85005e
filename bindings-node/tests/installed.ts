/** The package as users get it: packed, and installed from its tarballs without a registry. */

import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'

export const execute = promisify(execFile)
const here = import.meta.dirname

/** Of this machine, as the names of the prebuilt modules have it. */
export const platform: string = createRequire(import.meta.url)('../scripts/platform').platform()

/** Packs the package with the native module of this machine into a directory. Returns the tarballs, the module's first. */
export async function pack(directory: string): Promise<string[]> {
  const module = join(here, `../leasehold.${platform}.node`)
  const { stdout } = await execute(process.execPath, [join(here, '../scripts/pack.js'), directory, module])
  return stdout.trim().split('\n')
}

/** Installs tarballs into a new directory, with what is in them and nothing else. */
export async function install(directory: string, packages: string[], ...flags: string[]): Promise<void> {
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, 'package.json'), '{}\n')
  const quiet = ['--offline', '--no-audit', '--no-fund', '--loglevel=error']
  await execute('npm', ['install', ...quiet, ...flags, ...packages], { cwd: directory })
}
