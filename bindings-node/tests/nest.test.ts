/** The module for NestJS: what it provides, and that the application closes it. */

import 'reflect-metadata'
import { type INestApplicationContext, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { expect, test } from 'vitest'
import { Client } from '../dist/index.mjs'
import { LeaseholdModule, leaseholdToken } from '../dist/nest.mjs'
import { code } from './support'

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
