/** Puts the module that cargo built last, optimised or not, where the loader looks first. Argument: cargo's target directory. */

const { copyFileSync, existsSync, renameSync, statSync } = require('node:fs')
const { join } = require('node:path')
const { platform } = require('./platform')

const FILES = { darwin: 'libleasehold_node.dylib', win32: 'leasehold_node.dll' }

const [target] = process.argv.slice(2)
const file = FILES[process.platform] ?? 'libleasehold_node.so'
const [newest] = ['debug', 'release']
  .map((profile) => join(target, profile, file))
  .filter((path) => existsSync(path))
  .sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)
if (newest === undefined) {
  console.error(`There is no native module in ${target}. Run: cargo build --workspace`)
  process.exit(1)
}
const place = join(__dirname, '..', `leasehold.${platform()}.node`)
if (!existsSync(place) || statSync(place).mtimeMs < statSync(newest).mtimeMs) {
  // In one step, and as a new file: processes that run have the old one mapped.
  copyFileSync(newest, `${place}.new`)
  renameSync(`${place}.new`, place)
}
