/** leasehold for NestJS: a client as a provider, closed with the application. */

import { ConfigurableModuleBuilder, Inject, type InjectionToken, type OnApplicationShutdown } from '@nestjs/common'
import { Client } from './client'
import type { ClientOptions } from './options'

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

const OPTIONS = Symbol('the options of LeaseholdModule')
const NO_EXTRAS: LeaseholdModuleExtras = { name: undefined, isGlobal: false }

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<LeaseholdModuleOptions>({
  optionsInjectionToken: OPTIONS,
})
  .setClassMethodName('forRoot')
  .setExtras(NO_EXTRAS, ({ providers = [], ...definition }, { name, isGlobal = false }) => {
    const client = { provide: leaseholdToken(name), inject: [OPTIONS], useFactory: open }
    return { ...definition, global: isGlobal, providers: [...providers, client], exports: [client.provide] }
  })
  .build()

/**
 * Provides a client. It is closed, and releases everything, when the application shuts down: by `app.close()`, or by a
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
