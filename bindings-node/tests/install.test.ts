/**
 * The package as users get it: packed, installed from its tarballs, loaded in every way by every Node; and the examples of
 * the pages, run against what was installed.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { Port } from '../src/ports'
import { at, examples } from './examples'
import { execute, install, pack, platform } from './installed'
import { startRedis } from './redis'
import { endpoint, keys, until } from './support'

const here = import.meta.dirname
const bin = join(here, 'node_modules/.bin')
const tsc = join(here, '../node_modules/.bin/tsc')
const NODES = {
  'Node of this machine': process.execPath,
  'Node 22': join(here, 'node_modules/node22/bin/node'),
  'Node 24': join(here, 'node_modules/node24/bin/node'),
}

/** What else runs packages of npm, and how it is told to. */
const OTHERS = {
  Bun: ['bun/bin/bun', 'run'],
  Deno: ['deno/deno', 'run', '--allow-all', '--node-modules-dir=manual'],
}

/** Where the tarballs are, where they are installed with nothing else, and where beside what the recipes use. */
let work: string
let tarballs: string[]
let empty: string
const beside = join(here, '.installed')

beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'leasehold-install-'))
  tarballs = await pack(work)
  empty = join(work, 'empty')
  await Promise.all([install(empty, tarballs), rm(beside, { recursive: true, force: true })])
  await install(beside, tarballs)
}, 180_000)

afterAll(async () => {
  await rm(work, { recursive: true, force: true })
  await rm(beside, { recursive: true, force: true })
})

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
async function compile(directory: string, file: string, others: object = {}): Promise<string> {
  const options = {
    target: 'es2022',
    lib: ['es2023', 'esnext.disposable'],
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    experimentalDecorators: true,
    types: ['node'],
    typeRoots: [join(here, '../node_modules/@types')],
    ...others,
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

  for (const [runtime, words] of Object.entries(OTHERS)) {
    test(`${runtime}: acquire, wait, loss, exit`, async () => {
      const lock = `/install/${runtime}`
      const code = `import { Client } from 'leasehold'
        const client = new Client('${endpoint}', { ttl: 60_000 })
        const guard = await client.acquire('${lock}')
        const waiting = client.acquire('${lock}')
        const lost = new Promise((resolve) => guard.on('lost', resolve))
        while ((await client.queue('${lock}')).length < 2) {}
        // Who only listens keeps no process alive.
        const alive = setInterval(() => {}, 1_000)
        await client.forceRelease('${lock}', guard.token)
        console.log(await lost, guard.signal.aborted, (await waiting).held, await client.tryAcquire('${lock}'))
        clearInterval(alive)
        await client.acquire('${lock}', { signal: AbortSignal.timeout(100) }).catch(({ name }) => console.log(name))`
      await writeFile(join(empty, `${runtime}.mjs`), code)
      const [program = '', ...given] = words
      const { stdout } = await execute(join(here, 'node_modules', program), [...given, `${runtime}.mjs`], {
        cwd: empty,
      })
      expect(stdout).toBe('KEY_DELETED true true null\nTimeoutError\n')
      // It held the lock when it fell off its end.
      expect(await keys(lock)).toEqual([])
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
        await using client = new Client('${endpoint}', { ttl: 60_000 })
        const value: number = await client.withLock('/install/ts', { wait: 60_000 }, async (guard: Guard) => {
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

  test('TypeScript with an older target and its library', async () => {
    const code = `import { Client, type Guard, NotAcquiredError } from 'leasehold'
      const client = new Client('memory://older')
      client.withLock('/a', async (guard: Guard) => console.log(guard.held, new NotAcquiredError('x', { cause: 1 }).code))
        .then(() => client.close())`
    await writeFile(join(empty, 'older.ts'), code)
    const compiled = await compile(empty, 'older.ts', { target: 'es2020', lib: ['es2020'], module: 'node16' })
    const { stdout } = await execute(process.execPath, [compiled], { cwd: empty })
    expect(stdout).toBe('true ERR_LEASEHOLD_NOT_ACQUIRED\n')
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

  test('each package says what it is made of', async () => {
    const bills = await Promise.all(
      tarballs.map(async (tarball) => {
        const { stdout } = await execute('tar', ['-xzOf', tarball, 'package/sbom.cdx.json'])
        return JSON.parse(stdout)
      }),
    )
    const version = JSON.parse(await readFile(join(here, '../package.json'), 'utf8')).version
    const native = `pkg:npm/%40leasehold/${platform}@${version}`
    const subjects = bills.map(({ bomFormat, metadata }) => `${bomFormat} ${metadata.component.purl}`)
    expect(subjects).toEqual([`CycloneDX ${native}`, `CycloneDX pkg:npm/leasehold@${version}`])
    const [crates, modules] = bills.map(({ components }) => components.map(({ purl }: { purl: string }) => purl))
    expect(modules).toEqual([native])
    // Those, and only those, whose notices are in the package, too.
    const notices = await readFile(join(here, '../../THIRD-PARTY-NOTICES.txt'), 'utf8')
    const noted = notices.matchAll(/^(\S+) (\S+) {2,}.*?(?:all|[\w, ]*\bNode\b[\w, ]*)$/gm)
    expect(crates).toEqual([...noted].map(([, name, number]) => `pkg:cargo/${name}@${number}`))
    expect(crates.length).toBeGreaterThan(50)
  })

  test('a release has a module for every platform, and says where the project is', async () => {
    const modules = join(work, 'modules')
    await mkdir(modules)
    const platforms = Object.keys(JSON.parse(await readFile(join(here, '../scripts/platforms.json'), 'utf8')))
    const paths = platforms.map((each) => join(modules, `leasehold.${each}.node`))
    // Any program does: nobody loads it.
    for (const path of paths) await copyFile('/bin/true', path)
    const release = (...given: string[]) =>
      execute(process.execPath, [join(here, '../scripts/pack.js'), '--release', ...given]).then(
        ({ stdout }) => stdout.trim().split('\n'),
        ({ code, stderr }) => `${code} ${stderr}`,
      )
    const [page, place] = ['https://example.invalid/leasehold', join(work, 'release')]
    expect(await release(page, place, ...paths.slice(1))).toMatch(new RegExp(`^1 .*missing are ${platforms[0]}`))
    expect(await release(place, ...paths)).toMatch(/^2 usage/)
    const packed = await release(page, place, ...paths)
    expect(packed).toHaveLength(platforms.length + 1)
    for (const tarball of packed) {
      const { stdout } = await execute('tar', ['-xzOf', tarball, 'package/package.json'])
      expect(JSON.parse(stdout)).toMatchObject({
        repository: { type: 'git', url: `git+${page}.git` },
        bugs: `${page}/issues`,
        homepage: `${page}#readme`,
        publishConfig: { access: 'public', provenance: true },
      })
    }
  }, 300_000)

  test('without the native module it says what it tried, and what to do', async () => {
    const lonely = join(work, 'lonely')
    const [main = ''] = tarballs.filter((path) => !path.includes('linux'))
    await install(lonely, [main], '--omit=optional')
    const load = (env: NodeJS.ProcessEnv = {}, cwd = lonely, ...flags: string[]) =>
      execute(process.execPath, [...flags, '-e', "require('leasehold')"], {
        cwd,
        env: { ...process.env, ...env },
      }).then(
        () => '',
        (error) => error.stderr as string,
      )
    expect(await load()).toMatch(
      /found no native module for linux on [\s\S]*@leasehold\/linux[\s\S]*-musl[\s\S]*none is installed[\s\S]*--include=optional/,
    )
    expect(await load({ LEASEHOLD_NATIVE: '/nowhere.node' })).toContain('/nowhere.node: ')
    // It is there, and the process may not load it.
    expect(await load({}, empty)).toBe('')
    expect(await load({}, empty, '--no-addons')).toMatch(/may load no native modules[\s\S]*--allow-addons/)

    // As an image has it that copies node_modules from a stage of another kind.
    const other = platform === 'linux-arm64-musl' ? 'linux-x64-gnu' : 'linux-arm64-musl'
    const foreign = join(lonely, 'node_modules/@leasehold', other)
    await mkdir(foreign, { recursive: true })
    await writeFile(join(foreign, 'package.json'), JSON.stringify({ name: `@leasehold/${other}`, main: 'a.node' }))
    await writeFile(join(foreign, 'a.node'), 'of another platform')
    expect(await load()).toMatch(new RegExp(`node_modules has the one for ${other}[\\s\\S]*npm ci`))
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
