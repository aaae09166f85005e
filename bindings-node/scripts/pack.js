/**
 * Packs the package as users get it: one tarball for each native module that is there, and one for the package itself, which
 * names them as optional dependencies. Prints the paths of the tarballs. Arguments: where to put them, and the native
 * modules, each named `leasehold.<platform>.node`.
 *
 * `--release URL` before them packs for a registry: with the page of the project in each manifest, and only if there is a module
 * for every platform, because the package names for good those that were there when it was packed.
 */

const { execFileSync } = require('node:child_process')
const { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { basename, join, resolve } = require('node:path')
const platforms = require('./platforms.json')

/** Our licence, and what those of the crates in the native module ask to pass on. */
const NOTICES = ['LICENSE', 'THIRD-PARTY-NOTICES.txt']
/** What a package is made of, in the format of CycloneDX. */
const SBOM = 'sbom.cdx.json'
const home = join(__dirname, '..')
const { devDependencies: _, private: __, scripts: ___, ...manifest } = require('../package.json')
const isRelease = process.argv[2] === '--release'
const page = isRelease ? process.argv[3] : undefined
const [place, ...modules] = process.argv.slice(isRelease ? 4 : 2).map((path) => resolve(path))
if (place === undefined || modules.length === 0 || (isRelease && !URL.canParse(page))) {
  console.error('usage: pack.js [--release URL] DIRECTORY leasehold.<platform>.node...')
  process.exit(2)
}
if (isRelease) {
  const missing = Object.keys(platforms).filter((platform) => !modules.some((path) => platformOf(path) === platform))
  if (missing.length > 0) {
    console.error(`pack.js: a release has a native module for every platform; missing are ${missing.join(', ')}`)
    process.exit(1)
  }
  manifest.repository = { type: 'git', url: `git+${page}.git` }
  manifest.bugs = `${page}/issues`
  manifest.homepage = `${page}#readme`
}

const work = mkdtempSync(join(tmpdir(), 'leasehold-pack-'))
try {
  mkdirSync(place, { recursive: true })
  manifest.optionalDependencies = {}
  for (const path of modules) {
    const platform = platformOf(path)
    if (platforms[platform] === undefined) throw new Error(`${path}: known platforms are ${Object.keys(platforms)}`)
    pack(platform, () => module(platform, path))
    manifest.optionalDependencies[`@leasehold/${platform}`] = manifest.version
  }
  pack('leasehold', main)
} finally {
  rmSync(work, { recursive: true })
}

/** The platform that the name of a native module says. */
function platformOf(path) {
  return /^leasehold\.(.*)\.node$/.exec(basename(path))?.[1]
}

/** One native module. */
function module(platform, path) {
  const file = basename(path)
  const { name, version, license, engines, repository, bugs, homepage, publishConfig } = manifest
  copyFileSync(path, file)
  if (platform.startsWith('linux')) execFileSync('strip', ['--strip-debug', file])
  return {
    name: `@${name}/${platform}`,
    version,
    description: `The native module of ${name} for ${platform}`,
    license,
    repository,
    bugs,
    homepage,
    engines,
    publishConfig,
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

/** The bill of materials of a package: the crates in a native module, or the native modules that the package itself names. */
function bill({ name, version, license, optionalDependencies }) {
  const bom = JSON.parse(readFileSync(join(home, '../sbom/node.cdx.json'), 'utf8'))
  bom.metadata.component = { ...library(name, version), licenses: [{ expression: license }] }
  if (optionalDependencies !== undefined) {
    bom.components = Object.entries(optionalDependencies).map((each) => ({ ...library(...each), scope: 'optional' }))
  }
  return bom
}

function library(name, version) {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
  return { type: 'library', 'bom-ref': purl, name, version, purl }
}

function writeJson(file, value) {
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`)
}

function pack(name, fill) {
  const directory = join(work, name)
  mkdirSync(directory)
  process.chdir(directory)
  for (const notice of NOTICES) copyFileSync(join(home, '..', notice), notice)
  const manifest = fill()
  manifest.files = [...manifest.files, ...NOTICES, SBOM]
  writeJson('package.json', manifest)
  writeJson(SBOM, bill(manifest))
  const packed = execFileSync('npm', ['pack', '--json', '--loglevel=error', '--pack-destination', place], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  console.log(join(place, JSON.parse(packed)[0].filename))
}
