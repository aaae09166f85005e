/**
 * Puts the module that cargo built last where the loader looks first. Arguments: cargo's target directory, and one of its
 * profiles, if the other does not count.
 */

const { copyFileSync, existsSync, renameSync, statSync, utimesSync } = require('node:fs')
const { join } = require('node:path')
const { platform } = require('./platform')

const FILES = { darwin: 'libleasehold_node.dylib', win32: 'leasehold_node.dll' }

const [target, ...profiles] = process.argv.slice(2)
const file = FILES[process.platform] ?? 'libleasehold_node.so'
const [newest] = (profiles.length > 0 ? profiles : ['debug', 'dist'])
  .map((profile) => join(target, profile, file))
  .filter((path) => existsSync(path))
  .sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)
if (newest === undefined) {
  console.error(`There is no native module in ${target}. Run: cargo build --workspace`)
  process.exit(1)
}
const place = join(__dirname, '..', `leasehold.${platform()}.node`)
const { atime, mtime } = statSync(newest)
if (!existsSync(place) || statSync(place).mtime.getTime() !== mtime.getTime()) {
  // In one step, and as a new file: processes that run have the old one mapped.
  copyFileSync(newest, `${place}.new`)
  utimesSync(`${place}.new`, atime, mtime)
  renameSync(`${place}.new`, place)
}
