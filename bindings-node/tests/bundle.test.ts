/**
 * Programs that are bundled, or whose files are traced, as the pages say: each result runs in a directory that has nothing
 * else, and in which nothing of `node_modules` is found.
 */

import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { nodeFileTrace } from '@vercel/nft'
import { type BuildOptions, build, formatMessages } from 'esbuild'
import { afterAll, beforeAll, expect, test } from 'vitest'
import webpack, { type Stats } from 'webpack'
import { execute, install, pack, platform } from './installed'
import { endpoint } from './support'

const require = createRequire(import.meta.url)
let work: string
let project: string

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'leasehold-bundle-'))
  project = join(work, 'project')
  await install(project, await pack(work))
  const program = (load: string) => `${load}
    const client = new Client(process.argv[2])
    client
      .withLock('/bundle', { wait: 5_000 }, (guard) => console.log(guard.held, typeof guard.token))
      .then(() => client.close())\n`
  await writeFile(join(project, 'app.mjs'), program("import { Client } from 'leasehold'"))
  await writeFile(join(project, 'app.cjs'), program("const { Client } = require('leasehold')"))
}, 120_000)

afterAll(async () => {
  await rm(work, { recursive: true, force: true })
})

/** Runs the only program that is there. */
async function runs(directory: string, file: string): Promise<void> {
  const moved = await mkdtemp(join(tmpdir(), 'leasehold-moved-'))
  try {
    await cp(directory, moved, { recursive: true })
    await rm(directory, { recursive: true })
    const { stdout, stderr } = await execute(process.execPath, [file, endpoint], { cwd: moved })
    expect({ stdout, stderr }).toEqual({ stdout: 'true bigint\n', stderr: '' })
  } finally {
    await rm(moved, { recursive: true, force: true })
  }
}

const COMMON: BuildOptions = { bundle: true, platform: 'node', logLevel: 'silent' }
/** As esbuild's users have it, for packages that call `require`. */
const BANNER = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"

for (const loader of ['copy', 'file'] as const) {
  test(`esbuild, CommonJS, loader ${loader}`, async () => {
    const outdir = join(work, `esbuild-cjs-${loader}`)
    const options: BuildOptions = { ...COMMON, outdir, loader: { '.node': loader }, outExtension: { '.js': '.cjs' } }
    const { warnings } = await build({ ...options, format: 'cjs', entryPoints: [join(project, 'app.cjs')] })
    expect(warnings).toEqual([])
    await runs(outdir, 'app.cjs')
  })

  test(`esbuild, as a module, loader ${loader}`, async () => {
    const outdir = join(work, `esbuild-esm-${loader}`)
    const options: BuildOptions = { ...COMMON, outdir, loader: { '.node': loader }, outExtension: { '.js': '.mjs' } }
    const entryPoints = [join(project, 'app.mjs')]
    const { warnings } = await build({ ...options, format: 'esm', banner: { js: BANNER }, entryPoints })
    expect(warnings).toEqual([])
    await runs(outdir, 'app.mjs')
  })
}

test('what is minified shows its errors and its guards by their names', async () => {
  const outdir = join(work, 'esbuild-minified')
  await writeFile(
    join(project, 'names.mjs'),
    `import { Client } from 'leasehold'
    const client = new Client('memory://names')
    const guard = await client.acquire('/a')
    const error = await client.acquire('/a', { wait: 0 }).catch((error) => error)
    console.log(error.name, /^NotAcquiredError: /.test(error.stack))
    console.log(String((await import('node:util')).inspect(guard)).split(' ')[0])\n`,
  )
  const options: BuildOptions = { ...COMMON, outdir, loader: { '.node': 'copy' }, outExtension: { '.js': '.mjs' } }
  const entryPoints = [join(project, 'names.mjs')]
  await build({ ...options, format: 'esm', minify: true, banner: { js: BANNER }, entryPoints })
  const { stdout } = await execute(process.execPath, ['names.mjs'], { cwd: outdir })
  expect(stdout).toBe('NotAcquiredError true\nGuard\n')
})

test('esbuild, with the native module left outside', async () => {
  const outdir = join(work, 'esbuild-outside')
  const entryPoints = [join(project, 'app.mjs')]
  const options: BuildOptions = { ...COMMON, outdir, external: ['@leasehold/*'], outExtension: { '.js': '.mjs' } }
  await build({ ...options, format: 'esm', banner: { js: BANNER }, entryPoints })
  await cp(join(project, 'node_modules/@leasehold'), join(outdir, 'node_modules/@leasehold'), { recursive: true })
  await runs(outdir, 'app.mjs')
})

test('esbuild that is not told what a native module is shows what to say', async () => {
  const entryPoints = [join(project, 'app.mjs')]
  const failed = await build({ ...COMMON, outdir: join(work, 'esbuild-untold'), entryPoints }).catch((error) => error)
  expect(failed.errors).toHaveLength(1)
  expect(failed.errors[0].text).toContain('No loader is configured for ".node" files')
  // Cut to the width of a terminal, too.
  const [shown = ''] = await formatMessages(failed.errors, { kind: 'error', terminalWidth: 80 })
  expect(shown).toContain('--loader:.node=copy')
})

test('webpack', async () => {
  const path = join(work, 'webpack')
  const compiler = webpack({
    mode: 'production',
    target: 'node',
    context: project,
    entry: './app.mjs',
    output: { path, filename: 'app.cjs' },
    module: { rules: [{ test: /\.node$/, loader: require.resolve('node-loader') }] },
  })
  const stats = await new Promise<Stats | undefined>((resolve, reject) => {
    compiler?.run((error, done) => (error ? reject(error) : resolve(done)))
  })
  expect(stats?.toJson({ all: false, errors: true }).errors).toEqual([])
  await runs(path, 'app.cjs')
}, 120_000)

test('traced files, as for `output: standalone` of Next.js and for functions', async () => {
  const { fileList } = await nodeFileTrace([join(project, 'app.mjs')], { base: project })
  expect([...fileList]).toContain(`node_modules/@leasehold/${platform}/leasehold.${platform}.node`)
  const traced = join(work, 'traced')
  for (const file of fileList) {
    await mkdir(join(traced, dirname(file)), { recursive: true })
    await writeFile(join(traced, file), await readFile(join(project, file)))
  }
  await runs(traced, 'app.mjs')
})
