/** leasehold for NestJS: a client as a provider, closed with the application. */

import {
  type DynamicModule,
  Inject,
  type InjectionToken,
  type ModuleMetadata,
  type OnApplicationShutdown,
  type OptionalFactoryDependency,
  type Provider,
} from '@nestjs/common'
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
  name?: string
  /** Whether every module of the application sees it without importing it. Default false. */
  isGlobal?: boolean
}

/** Options that are made from other providers, such as a configuration. */
export interface LeaseholdModuleAsyncOptions extends LeaseholdModuleExtras, Pick<ModuleMetadata, 'imports'> {
  inject?: (InjectionToken | OptionalFactoryDependency)[]
  // biome-ignore lint/suspicious/noExplicitAny: what is injected has the types that the factory says
  useFactory: (...injected: any[]) => LeaseholdModuleOptions | Promise<LeaseholdModuleOptions>
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

/**
 * Provides a client. It is closed, and releases everything, when the application shuts down: by `app.close()`, or by a
 * signal if `app.enableShutdownHooks()` was called.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: a module of Nest is a class
export class LeaseholdModule {
  static forRoot(options: LeaseholdModuleOptions & LeaseholdModuleExtras): DynamicModule {
    const { name, isGlobal, ...rest } = options
    return LeaseholdModule.forRootAsync({ ...extras(name, isGlobal), useFactory: () => rest })
  }

  static forRootAsync(options: LeaseholdModuleAsyncOptions): DynamicModule {
    const { name, isGlobal = false, imports = [], inject = [], useFactory } = options
    const provider: Provider = {
      provide: leaseholdToken(name),
      inject,
      useFactory: async (...injected: unknown[]) => {
        const { endpoints, ...rest } = await useFactory(...injected)
        return new ModuleClient(endpoints, rest)
      },
    }
    return { module: LeaseholdModule, global: isGlobal, imports, providers: [provider], exports: [provider.provide] }
  }
}

/** A client that the application closes. */
class ModuleClient extends Client implements OnApplicationShutdown {
  async onApplicationShutdown(): Promise<void> {
    await this.close()
  }
}

function extras(name: string | undefined, isGlobal: boolean | undefined): LeaseholdModuleExtras {
  return { ...(name === undefined ? {} : { name }), ...(isGlobal === undefined ? {} : { isGlobal }) }
}
