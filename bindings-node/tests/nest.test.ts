/** The module for NestJS: what it provides, and that the application closes it. */

import 'reflect-metadata'
import { type INestApplicationContext, Injectable, Module, SetMetadata } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { from, lastValueFrom } from 'rxjs'
import { describe, expect, test } from 'vitest'
import { Client, currentGuard, type Guard } from '../dist/index.mjs'
import {
  LeaseholdHealth,
  LeaseholdModule,
  Locked,
  LockGuard,
  leaseholdHealthToken,
  leaseholdToken,
} from '../dist/nest.mjs'
import { code, failure } from './support'

async function application(imports: object[]): Promise<INestApplicationContext> {
  class App {}
  Module({ imports: imports as never })(App)
  return await NestFactory.createApplicationContext(App, { logger: false, abortOnError: false })
}

test('provides a client that is closed with the application', async () => {
  const app = await application([LeaseholdModule.forRoot({ endpoints: 'memory://nest', identity: 'nest' })])
  const client = app.get(Client)
  expect(client.identity).toBe('nest')
  const guard = await client.acquire('/lock')
  await app.close()
  expect(guard.lostReason).toBe('CLIENT_CLOSED')
  expect(await code(client.acquire('/lock'))).toBe('CLOSED')
})

test('several clients have names, and their options come from providers', async () => {
  const configuration = { provide: 'configuration', useValue: { etcd: 'memory://nest2' } }
  class Configuration {}
  Module({ providers: [configuration], exports: ['configuration'] })(Configuration)
  const app = await application([
    LeaseholdModule.forRootAsync({
      name: 'orders',
      isGlobal: true,
      imports: [Configuration],
      inject: ['configuration'],
      useFactory: async ({ etcd }: { etcd: string }) => ({ endpoints: [etcd], identity: 'orders' }),
    }),
    LeaseholdModule.forRoot({ name: 'users', endpoints: 'memory://nest2', identity: 'users' }),
  ])
  const [orders, users] = ['orders', 'users'].map((name) => app.get<Client>(leaseholdToken(name)))
  expect([orders?.identity, users?.identity]).toEqual(['orders', 'users'])
  await orders?.acquire('/lock')
  expect(await users?.tryAcquire('/lock')).toBeNull()
  await app.close()
})

test('bad options stop the application', async () => {
  const bad = application([LeaseholdModule.forRoot({ endpoints: 'memory://nest', ttl: 1 })])
  expect(await code(bad)).toBe('INVALID_ARGUMENT')
})

test('options come from a class, or from a provider that is there already', async () => {
  class Configuration {
    create() {
      return { endpoints: 'memory://nest3', identity: 'by class' }
    }
  }
  const made = await application([LeaseholdModule.forRootAsync({ useClass: Configuration })])
  expect(made.get(Client).identity).toBe('by class')
  await made.close()

  class Present extends Configuration {}
  class Settings {}
  Module({ providers: [Present], exports: [Present] })(Settings)
  const found = await application([LeaseholdModule.forRootAsync({ imports: [Settings], useExisting: Present })])
  expect(found.get(Client).identity).toBe('by class')
  await found.close()
})

test('tells its health', async () => {
  const app = await application([
    LeaseholdModule.forRoot({ endpoints: 'memory://nest4' }),
    LeaseholdModule.forRoot({ name: 'away', endpoints: 'http://127.0.0.1:1', requestTimeout: 200 }),
  ])
  expect(await app.get(LeaseholdHealth).isHealthy()).toEqual({ leasehold: { status: 'up' } })
  expect(await app.get<LeaseholdHealth>(leaseholdHealthToken('away')).isHealthy('locks')).toMatchObject({
    locks: { status: 'down', code: 'ERR_LEASEHOLD_UNAVAILABLE' },
  })
  await app.close()
})

describe('@Locked', () => {
  /** What a decorator of Nest says of a method. */
  const marked = (key: string, value: string): MethodDecorator => SetMetadata(key, value)

  class Orders {
    seen: unknown[] = []

    async charge(id: string, guard?: Guard, note = 'none') {
      this.seen.push([id, guard?.name, note, currentGuard() === guard])
      return await Promise.resolve(guard?.token)
    }

    ship(order: { id: number }) {
      return currentGuard()?.name ?? order
    }

    bill(_first: string, second: string) {
      return currentGuard()?.name ?? second
    }

    fail() {
      throw new Error('mine')
    }

    later(): unknown {
      return from(['without the lock'])
    }

    async *values() {
      yield expect.unreachable()
    }

    async within() {
      return await lastValueFrom(from([currentGuard()?.name]))
    }
  }
  const decorate = (name: keyof Orders, ...decorators: MethodDecorator[]) => {
    const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, name) as PropertyDescriptor
    for (const decorator of decorators.toReversed()) decorator(Orders.prototype, name, descriptor)
    Object.defineProperty(Orders.prototype, name, descriptor)
  }
  LockGuard()(Orders.prototype, 'charge', 1)
  decorate('charge', marked('above', 'a'), Locked('order:{id}', { wait: 2_000 }), marked('below', 'b'))
  decorate('ship', Locked('order:{order.id}', { client: 'other' }))
  decorate(
    'bill',
    Locked((_first: string, second: string) => `bill:${second}`),
  )
  decorate('fail', Locked('fail'))
  decorate('later', Locked('later'))
  decorate('within', Locked('within'))
  decorate('values', Locked('values'))
  Injectable()(Orders)

  async function orders() {
    class Feature {}
    Module({ providers: [Orders], exports: [Orders] })(Feature)
    const app = await application([
      LeaseholdModule.forRoot({ endpoints: 'memory://nest5', isGlobal: true }),
      LeaseholdModule.forRoot({ endpoints: 'memory://nest6', isGlobal: true, name: 'other' }),
      Feature,
    ])
    return { app, service: app.get(Orders), client: app.get(Client) }
  }

  test('runs a method under the lock that its parameters name, with the guard', async () => {
    const { app, service, client } = await orders()
    expect(await service.charge('7')).toBeTypeOf('bigint')
    expect(await service.charge('8', undefined, 'said')).toBeTypeOf('bigint')
    expect(service.seen).toEqual([
      ['7', 'order:7', 'none', true],
      ['8', 'order:8', 'said', true],
    ])
    expect(await service.ship({ id: 9 })).toBe('order:9')
    expect(await service.bill('1', '2')).toBe('bill:2')
    expect(String(await failure(service.fail() as never))).toContain('mine')
    // It would be subscribed, and do its work, when the lock is released.
    expect(await code(service.later() as never)).toBe('INVALID_ARGUMENT')
    expect(await service.within()).toBe('within')
    expect(await code(service.values() as never)).toBe('INVALID_ARGUMENT')
    const guard = await client.acquire('order:7')
    expect(await code(service.charge('7'))).toBe('NOT_ACQUIRED')
    await guard.release()
    expect(await code(service.charge('') as never)).toBe('INVALID_ARGUMENT')
    expect(await code(service.ship({} as never) as never)).toBe('INVALID_ARGUMENT')
    expect(await code(service.ship(undefined as never) as never)).toBe('INVALID_ARGUMENT')
    await app.close()
  })

  test('keeps what other decorators say of the method', () => {
    expect(Reflect.getMetadata('below', Orders.prototype.charge)).toBe('b')
    expect(Reflect.getMetadata('above', Orders.prototype.charge)).toBe('a')
    expect(Orders.prototype.charge.name).toBe('charge')
  })

  test('says at once what is wrong, and what was not injected', async () => {
    class Wrong {
      method(id: string) {
        return id
      }
    }
    const apply = (decorator: MethodDecorator) => () =>
      decorator(Wrong.prototype, 'method', Object.getOwnPropertyDescriptor(Wrong.prototype, 'method') as never)
    const wrong = (decorator: () => MethodDecorator, text: RegExp) =>
      expect(() => apply(decorator())()).toThrowError(text)
    wrong(() => Locked('order:{order}'), /no parameter of method: they are id/)
    wrong(() => Locked('order:{id}', { waits: 5 } as never), /no option waits/)
    expect(await code(new Orders().charge('7'))).toBe('INVALID_ARGUMENT')
  })
})
