/** Methods that run under a lock: `@Locked('order:{id}')`. */

import { Inject, type InjectionToken } from '@nestjs/common'
import { Client } from './client'
import { invalidArgument } from './errors'
import type { Guard } from './guard'
import { checkScope, type ScopeOptions } from './options'

/** How a method is locked: as `client.withLock`, and by which client. */
export interface LockedOptions extends ScopeOptions {
  /** The name of the module's client, where there are several. */
  client?: string | undefined
}

type Method = (...args: unknown[]) => unknown

/** What `reflect-metadata` adds, which Nest itself has loaded. */
const metadata = Reflect as unknown as {
  getMetadata(key: unknown, target: object, property: string | symbol): unknown
  defineMetadata(key: unknown, value: unknown, target: object, property?: string | symbol): void
  getOwnMetadata(key: unknown, target: object): unknown
  getOwnMetadataKeys(target: object): unknown[]
}

/** Where a class says which parameters of a method take the guard. */
const GUARDS = Symbol('parameters that take the guard')

/**
 * Runs the method while the lock is held, which therefore returns a promise. The name may have parameters of the method in
 * braces, with what is in them behind dots, and by number: `'order:{id}'`, `'order:{order.id}'`, `'order:{0}'`; or it is made by
 * a function of the parameters.
 *
 * @throws At once, if the name has a parameter that the method has not. The method rejects with
 * `ERR_LEASEHOLD_INVALID_ARGUMENT` where a value for the name is missing or no text, number or bigint, and as
 * `client.withLock`.
 */
export function Locked(name: string | ((...args: never[]) => string), options: LockedOptions = {}): MethodDecorator {
  return (target, property, descriptor: PropertyDescriptor) => {
    const method = descriptor.value as Method
    const { client: named, ...how } = options
    checkScope(how)
    const toName = typeof name === 'string' ? template(name, method) : (name as (...args: unknown[]) => string)
    // The client is injected into the class, under a name that nobody else has.
    const place = Symbol(`the client of ${String(property)}`)
    const token: InjectionToken = named === undefined ? Client : `leasehold:${named}`
    Inject(token)(target, place)
    const locked = async function (this: { [place]: Client }, ...args: unknown[]): Promise<unknown> {
      const client = this[place]
      if (client === undefined) {
        throw invalidArgument(
          `${String(property)} is locked by a client that Nest has not injected: its class is no provider`,
        )
      }
      return await client.withLock(toName(...args), how, (guard: Guard) => {
        const given = [...args]
        for (const index of guardsOf(target, property)) given[index] = guard
        return withoutObservable(Reflect.apply(method, this, given), String(property))
      })
    }
    Object.defineProperty(locked, 'name', { value: method.name })
    // What other decorators have said of the method: they may stand above and below.
    for (const key of metadata.getOwnMetadataKeys(method)) {
      metadata.defineMetadata(key, metadata.getOwnMetadata(key, method), locked)
    }
    descriptor.value = locked
  }
}

/** What a method brings, unless it is an Observable: that would be subscribed, and do its work, without the lock. */
async function withoutObservable(pending: unknown, method: string): Promise<unknown> {
  const brought = await pending
  // As rxjs tells it, also of another copy.
  const { lift, subscribe } = (brought ?? {}) as Record<string, unknown>
  if (typeof lift !== 'function' || typeof subscribe !== 'function') return brought
  throw invalidArgument(
    `${method} is locked and brings an Observable, which would run without the lock: use lastValueFrom`,
  )
}

/** A parameter of a method with {@link Locked}, in which it finds its guard, whatever the caller gives. */
export function LockGuard(): ParameterDecorator {
  return (target, property, index) => {
    const key = property as string | symbol
    metadata.defineMetadata(GUARDS, [...guardsOf(target, key), index], target, key)
  }
}

function guardsOf(target: object, property: string | symbol): number[] {
  return (metadata.getMetadata(GUARDS, target, property) as number[] | undefined) ?? []
}

/** Makes a name of the parameters of a method. */
function template(text: string, method: Method): (...args: unknown[]) => string {
  const known = parameters(method)
  const parts = text.split(/\{([^{}]*)\}/).map((part, index) => {
    if (index % 2 === 0) return () => part
    const [first = '', ...path] = part.split('.')
    const at = /^\d+$/.test(first) ? Number(first) : known.indexOf(first)
    if (at < 0) {
      const list = known.length > 0 ? `they are ${known.join(', ')}` : 'it has none'
      throw invalidArgument(`{${part}} in the name ${JSON.stringify(text)} is no parameter of ${method.name}: ${list}`)
    }
    return (args: unknown[]) => {
      const value = path.reduce<unknown>((from, key) => (from as Record<string, unknown> | undefined)?.[key], args[at])
      const isText = typeof value === 'string' ? value !== '' : ['number', 'bigint'].includes(typeof value)
      if (!isText) throw invalidArgument(`{${part}} in the name ${JSON.stringify(text)} has no value to make a name of`)
      return String(value)
    }
  })
  return (...args) => parts.map((part) => part(args)).join('')
}

/** The names of a function's parameters, as its source has them; those of patterns are left empty. */
function parameters(method: Method): string[] {
  const source = Function.prototype.toString.call(method)
  const names: string[] = []
  let [depth, name] = [0, '']
  for (const sign of source.slice(source.indexOf('(') + 1)) {
    if (depth === 0 && (sign === ')' || sign === ',')) {
      if (name.trim() !== '' || sign === ',') names.push(/^\s*([\w$]+)\s*(=|$)/.exec(name)?.[1] ?? '')
      if (sign === ')') break
      name = ''
      continue
    }
    if ('([{'.includes(sign)) depth += 1
    if (')]}'.includes(sign)) depth -= 1
    name += sign
  }
  return names
}
