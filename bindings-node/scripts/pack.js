/**
 * Packs the package as users get it: one tarball for each native module that is there, and one for the package itself, which
 * names them as optional dependencies. Prints the paths of the tarballs. Arguments: where to put them, and the native
 * modules, each named `leasehold.<platform>.node`.
 */

const { execFileSync } = require('node:child_process')
const { copyFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { basename, join, resolve } = require('node:path')
const platforms = require('./platforms.json')

/** Our licence, and what those of the crates in the native module ask to pass on. */
const NOTICES = ['LICENSE', 'THIRD-PARTY-NOTICES.txt']
const home = join(__dirname, '..')
const { devDependencies: _, private: __, scripts: ___, ...manifest } = require('../package.json')
const [place, ...modules] = process.argv.slice(2).map((path) => resolve(path))
if (place === undefined || modules.length === 0) {
  console.error('usage: pack.js DIRECTORY leasehold.<platform>.node...')
  process.exit(2)
}

const work = mkdtempSync(join(tmpdir(), 'leasehold-pack-'))
try {
  mkdirSync(place, { recursive: true })
  manifest.optionalDependencies = {}
  for (const path of modules) {
    const platform = /^leasehold\.(.*)\.node$/.exec(basename(path))?.[1]
    if (platforms[platform] === undefined) throw new Error(`${path}: known platforms are ${Object.keys(platforms)}`)
    pack(platform, () => module(platform, path))
    manifest.optionalDependencies[`@leasehold/${platform}`] = manifest.version
  }
  pack('leasehold', main)
} finally {
  rmSync(work, { recursive: true })
}

/** One native module. */
function module(platform, path) {
  const file = basename(path)
  const { name, version, license, engines } = manifest
  copyFileSync(path, file)
  if (platform.startsWith('linux')) execFileSync('strip', ['--strip-debug', file])
  return {
    name: `@${name}/${platform}`,
    version,
    description: `The native module of ${name} for ${platform}`,
    license,
    engines,
    ...platforms[platform],
    main: file,
    files: [file],
  }
}

/** The package itself. */
function main() {
  cpSync(join(home, 'dist'), 'dist', { recursive: true })
  copyFileSync(join(home, 'README.md'), 'README.md')
  return manifest
}

function pack(name, fill) {
  const directory = join(work, name)
  mkdirSync(directory)
  process.chdir(directory)
  for (const notice of NOTICES) copyFileSync(join(home, '..', notice), notice)
  const manifest = fill()
  manifest.files = [...manifest.files, ...NOTICES]
  writeFileSync('package.json', `${JSON.stringify(manifest, null, 2)}\n`)
  const packed = execFileSync('npm', ['pack', '--json', '--loglevel=error', '--pack-destination', place], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  console.log(join(place, JSON.parse(packed)[0].filename))
}
