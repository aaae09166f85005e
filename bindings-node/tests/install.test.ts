/**
 * The package as users get it: packed, installed from its tarballs, loaded in every way by every Node; and the examples of
 * the pages, run against what was installed.
 */

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { Port } from '../src/ports'
import { at, examples } from './examples'
import { startRedis } from './redis'
import { endpoint, keys, until } from './support'

const execute = promisify(execFile)
const here = import.meta.dirname
const bin = join(here, 'node_modules/.bin')
const tsc = join(here, '../node_modules/.bin/tsc')
const NODES = {
  'Node of this machine': process.execPath,
  'Node 22': join(here, 'node_modules/node22/bin/node'),
  'Node 24': join(here, 'node_modules/node24/bin/node'),
}

/** Where the tarballs are, where they are installed with nothing else, and where beside what the recipes use. */
let work: string
let tarballs: string[]
let empty: string
const beside = join(here, '.installed')

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'leasehold-install-'))
  const platform = require('../scripts/platform').platform()
  const modules = [join(here, `../leasehold.${platform}.node`)]
  const { stdout } = await execute(process.execPath, [join(here, '../scripts/pack.js'), work, ...modules])
  tarballs = stdout.trim().split('\n')
  empty = join(work, 'empty')
  await Promise.all([install(empty, tarballs), rm(beside, { recursive: true, force: true })])
  await install(beside, tarballs)
}, 180_000)

afterAll(async () => {
  await rm(work, { recursive: true, force: true })
  await rm(beside, { recursive: true, force: true })
})

async function install(directory: string, packages: string[]): Promise<void> {
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, 'package.json'), '{}\n')
  // Without a registry: all that it needs is in the tarballs.
  await execute('npm', ['install', '--offline', '--no-audit', '--no-fund', '--loglevel=error', ...packages], {
    cwd: directory,
  })
}

/** Writes a program into a directory and runs it to its end. */
async function play(directory: string, file: string, code: string, node = process.execPath): Promise<string> {
  await writeFile(join(directory, file), code)
  const { stdout } = await execute(node, [file], { cwd: directory, env: environment() })
  return stdout
}

/** With an etcd on the path, for those that start one. */
function environment(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${dirname(inject('etcd'))}:${process.env['PATH']}` }
}

/** Compiles a TypeScript module of a directory; its declarations are checked, too. */
async function compile(directory: string, file: string): Promise<string> {
  const options = {
    target: 'es2022',
    lib: ['es2023', 'esnext.disposable'],
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    experimentalDecorators: true,
    types: ['node'],
    typeRoots: [join(here, '../node_modules/@types')],
  }
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: [file] }))
  await execute(tsc, ['-p', directory]).catch((error) => {
    throw new Error(`${file} does not compile:\n${error.stdout}`)
  })
  return file.replace(/ts$/, 'js')
}

describe('an empty directory', () => {
  const program = (load: string) => `${load}
    async function main() {
      const client = new Client('${endpoint}')
      console.log(await client.withLock('/install', (guard) => guard.held))
      await client.close()
    }
    main()`

  for (const [version, node] of Object.entries(NODES)) {
    test(`import and require: ${version}`, async () => {
      const name = version.replaceAll(/\W/g, '-')
      expect(await play(empty, `${name}.mjs`, program("import { Client } from 'leasehold'"), node)).toBe('true\n')
      expect(await play(empty, `${name}.cjs`, program("const { Client } = require('leasehold')"), node)).toBe('true\n')
      const both = `const { Client } = require('leasehold')
        import('leasehold').then((module) => console.log(module.Client === Client))`
      expect(await play(empty, `${name}-both.cjs`, both, node)).toBe('true\n')
    })
  }

  test('await using: Node 24', async () => {
    const code = `import { Client } from 'leasehold'
      await using client = new Client('${endpoint}')
      await using guard = await client.acquire('/install/using')
      console.log(guard.held)`
    expect(await play(empty, 'using.mjs', code, NODES['Node 24'])).toBe('true\n')
    expect(await keys('/install/using')).toEqual([])
  })

  test('TypeScript, as a module of either kind, strict and with the declarations checked', async () => {
    const code = `import { Client, type Guard, LostError, type LostReason } from 'leasehold'
      import { loseLock } from 'leasehold/testing'
      async function main(): Promise<void> {
        await using client = new Client('${endpoint}', { ttl: 5_000 })
        const value: number = await client.withLock('/install/ts', { wait: 1_000 }, async (guard: Guard) => {
          guard.on('lost', (reason: LostReason) => console.log(reason))
          const token: bigint = guard.token
          await loseLock(client, guard)
          return Number(token)
        }).catch((error: unknown) => error instanceof LostError ? 7 : 8)
        console.log(value)
      }
      main()`
    for (const file of ['typed.mts', 'typed.cts']) {
      await writeFile(join(empty, file), code)
      const compiled = await compile(empty, file)
      const { stdout } = await execute(process.execPath, [compiled], { cwd: empty })
      expect(stdout).toBe('KEY_DELETED\n7\n')
    }
  })

  test('types and exports are as they should be', async () => {
    const main = tarballs.find((path) => !path.includes('linux')) ?? ''
    const types = await execute(join(bin, 'attw'), [main, '--format', 'ascii', '--no-color', '--no-emoji'])
    expect(types.stdout).toContain('No problems found')
    const lint = await execute(join(bin, 'publint'), ['run', main, '--strict'])
    expect(lint.stdout).toMatch(/All good|No issues/i)
  })

  test('each package has the licence and the notices of what it contains', async () => {
    expect(tarballs).toHaveLength(2)
    for (const tarball of tarballs) {
      for (const name of ['LICENSE', 'THIRD-PARTY-NOTICES.txt']) {
        const { stdout } = await execute('tar', ['-xzOf', tarball, `package/${name}`])
        expect(stdout).toBe(await readFile(join(here, '../..', name), 'utf8'))
      }
    }
  })

  test('without the native module it says what it tried', async () => {
    const lonely = join(work, 'lonely')
    await mkdir(join(lonely, 'node_modules'), { recursive: true })
    await execute('tar', ['-xzf', tarballs.find((path) => !path.includes('linux')) ?? '', '-C', lonely])
    await symlink('../package', join(lonely, 'node_modules/leasehold'))
    const run = (env: NodeJS.ProcessEnv) =>
      execute(process.execPath, ['-e', "require('leasehold')"], { cwd: lonely, env: { ...process.env, ...env } }).then(
        () => '',
        (error) => error.stderr as string,
      )
    expect(await run({})).toMatch(
      /found no native module for linux on [\s\S]*\.node: [\s\S]*@leasehold\/linux[\s\S]*-musl[\s\S]*optional/,
    )
    expect(await run({ LEASEHOLD_NATIVE: '/nowhere.node' })).toContain('/nowhere.node: ')
  })
})

describe('the examples of the pages', () => {
  for (const example of examples()) {
    const file = `${example.page.replaceAll(/\W/g, '-')}-${example.line}.${example.kind}`
    test(`${example.page}:${example.line}`, async () => {
      using reserved = await Port.reserve()
      const port = reserved.number
      await using redis = example.needsRedis ? await startRedis() : undefined
      await writeFile(join(beside, file), at(example, endpoint, port, redis?.port))
      const program = example.kind === 'mts' ? await compile(beside, file) : file
      if (example.isServer) await serve(program, port)
      else await execute(process.execPath, [program], { cwd: beside, env: environment() })
    })
  }
})

/** Runs a server, charges an order, and ends it by a signal. */
async function serve(program: string, port: number): Promise<void> {
  const child = spawn(process.execPath, [program], { cwd: beside, stdio: ['ignore', 'inherit', 'inherit'] })
  const ended = once(child, 'exit')
  try {
    const charge = () => fetch(`http://127.0.0.1:${port}/orders/${port}/charge`, { method: 'POST' })
    await until(() => charge().then(Boolean, () => false), 'it serves')
    const responses = await Promise.all([charge(), charge(), charge()])
    const tokens = await Promise.all(
      responses.map(async (response) => ((await response.json()) as { token: string }).token),
    )
    expect(new Set(tokens).size).toBe(3)
    expect(await keys(`/charged/${port}`)).toHaveLength(1)
    child.kill('SIGTERM')
    const [code, signal] = await ended
    expect([0, 'SIGTERM']).toContain(code ?? signal)
    expect(await keys(`/orders/${port}`)).toEqual([])
  } finally {
    child.kill('SIGKILL')
  }
}
