/** leasehold for NestJS: a client as a provider, closed with the application; its health; and methods that run under a lock. */

import { ConfigurableModuleBuilder, Inject, type InjectionToken, type OnApplicationShutdown } from '@nestjs/common'
import { Client } from './client'
import type { ClientOptions } from './options'

export { Locked, type LockedOptions, LockGuard } from './nest-locked'

/** Options of {@link LeaseholdModule}: those of a `Client`, and where etcd is. */
export interface LeaseholdModuleOptions extends ClientOptions {
  /** As the first parameter of a `Client`: one URL or several. */
  endpoints: string | readonly string[]
}

/** Where the module is visible, and under which name its client is injected. */
export interface LeaseholdModuleExtras {
  /** Tells several clients apart; see {@link InjectLeasehold}. */
  name?: string | undefined
  /** Whether every module of the application sees it without importing it. Default false. */
  isGlobal?: boolean | undefined
}

/** The token of the client, for `overrideProvider` in tests and for factories. */
export function leaseholdToken(name?: string): InjectionToken {
  return name === undefined ? Client : `leasehold:${name}`
}

/**
 * Injects the client. Without a name, its class does the same: `constructor(private readonly client: Client)`.
 */
export function InjectLeasehold(name?: string): PropertyDecorator & ParameterDecorator {
  return Inject(leaseholdToken(name))
}

/** The token of {@link LeaseholdHealth}. */
export function leaseholdHealthToken(name?: string): InjectionToken {
  return name === undefined ? LeaseholdHealth : `leasehold:${name}:health`
}

/** What an indicator of `@nestjs/terminus` says, by its key. */
export type LeaseholdHealthResult = Record<string, { status: 'up' } | { status: 'down'; code: string; message: string }>

/**
 * Whether etcd answers, as an indicator for `HealthCheckService` of `@nestjs/terminus`:
 * `health.check([() => indicator.isHealthy('locks')])`.
 */
export class LeaseholdHealth {
  readonly #client: Client

  /** @internal */
  constructor(client: Client) {
    this.#client = client
  }

  /** Asks etcd for a sign of life. Never rejects. */
  async isHealthy(key = 'leasehold'): Promise<LeaseholdHealthResult> {
    try {
      await this.#client.ping()
      return { [key]: { status: 'up' } }
    } catch (error) {
      const { code, message } = error as Error & { code: string }
      return { [key]: { status: 'down', code, message } }
    }
  }
}

const OPTIONS = Symbol('the options of LeaseholdModule')
const NO_EXTRAS: LeaseholdModuleExtras = { name: undefined, isGlobal: false }

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<LeaseholdModuleOptions>({
  optionsInjectionToken: OPTIONS,
})
  .setClassMethodName('forRoot')
  .setExtras(NO_EXTRAS, ({ providers = [], ...definition }, { name, isGlobal = false }) => {
    const client = { provide: leaseholdToken(name), inject: [OPTIONS], useFactory: open }
    const health = {
      provide: leaseholdHealthToken(name),
      inject: [client.provide],
      useFactory: (opened: Client) => new LeaseholdHealth(opened),
    }
    const exports = [client.provide, health.provide]
    return { ...definition, global: isGlobal, providers: [...providers, client, health], exports }
  })
  .build()

/**
 * Provides a client and its {@link LeaseholdHealth}. The client is closed, and releases everything, when the application shuts down: by `app.close()`, or by a
 * signal if `app.enableShutdownHooks()` was called.
 *
 * `forRoot` takes {@link LeaseholdModuleOptions} and {@link LeaseholdModuleExtras}; `forRootAsync` takes the extras, and
 * `useFactory` with `inject`, `useClass` or `useExisting`, as Nest's own modules do.
 */
export class LeaseholdModule extends ConfigurableModuleClass {}

function open({ endpoints, ...options }: LeaseholdModuleOptions): Client {
  return new ModuleClient(endpoints, options)
}

/** A client that the application closes. */
class ModuleClient extends Client implements OnApplicationShutdown {
  async onApplicationShutdown(): Promise<void> {
    await this.close()
  }
}
