/** What can go wrong: one class for each error number, the same numbers and names as in every other language. */

import { types } from 'node:util'
import type { Failure } from './module'
import { native } from './native'

/** Why a guard no longer proves that it holds its lock. */
export type LostReason = 'EXPIRED' | 'KEY_DELETED' | 'LEASE_REVOKED' | 'CLIENT_CLOSED' | 'FORKED' | 'STORE_RESTORED'

/** The names of the errors; the same in every language. */
type Name =
  | 'NOT_ACQUIRED'
  | 'CANCELLED'
  | 'LOST'
  | 'NOT_HELD'
  | 'WOULD_DEADLOCK'
  | 'INVALID_ARGUMENT'
  | 'CLOSED'
  | 'FORKED'
  | 'UNAVAILABLE'
  | 'DEADLINE_EXCEEDED'
  | 'UNAUTHENTICATED'
  | 'PERMISSION_DENIED'
  | 'LIMIT_MISMATCH'
  | 'UNSUPPORTED'
  | 'RESOURCE_EXHAUSTED'
  | 'INTERNAL'

/** The `code` of each error. */
export type ErrorCode = `ERR_LEASEHOLD_${Name}`

/** The number of each error, by its name. */
const NUMBERS = native.errorNumbers()

/** What any error may be made with. Not `ErrorOptions`, which TypeScript knows from ES2022 on, and users may have less. */
interface Because {
  /** What it follows from. */
  cause?: unknown
}

/**
 * An error of leasehold. Its message says what was wrong and what to do about it, and holds no secret.
 *
 * Decide by {@link code}: it is right also where two copies of this package are installed, and `instanceof` is not. For tests
 * of your own, each class can be made: `new NotAcquiredError('busy')`.
 */
export class LeaseholdError extends Error {
  /** The stable name, such as `ERR_LEASEHOLD_LOST`. */
  readonly code: ErrorCode
  /** The stable number, such as 12; the same in every language. */
  readonly number: number

  constructor(name: Name, message: string, options?: Because) {
    super(message, options)
    this.code = `ERR_LEASEHOLD_${name}`
    this.number = NUMBERS[name] ?? Number(NUMBERS['INTERNAL'])
  }
}

/** What the class of an error is made from. */
function named<Its extends Name>(name: Its) {
  return class extends LeaseholdError {
    declare readonly code: `ERR_LEASEHOLD_${Its}`

    constructor(message: string, options?: Because) {
      super(name, message, options)
    }
  }
}

/** What a {@link LostError} may be made with. */
interface LostOptions extends Because {
  reason?: LostReason | undefined
}

/** `ERR_LEASEHOLD_LOST`: the lock was lost; what it protected may have been done by somebody else meanwhile. */
export class LostError extends named('LOST') {
  /** Why, where that is known. */
  readonly reason: LostReason | undefined

  constructor(message: string, options: LostOptions = {}) {
    super(message, options)
    this.reason = options.reason
  }
}
/** `ERR_LEASEHOLD_NOT_ACQUIRED`: the limit of the wait has passed. */
export class NotAcquiredError extends named('NOT_ACQUIRED') {}
/** `ERR_LEASEHOLD_CANCELLED`: An `AbortSignal` rejects with its own reason instead. */
export class CancelledError extends named('CANCELLED') {}
/** `ERR_LEASEHOLD_NOT_HELD`: released before, or nobody has that token. */
export class NotHeldError extends named('NOT_HELD') {}
/** `ERR_LEASEHOLD_WOULD_DEADLOCK`: a `withLock` inside a `withLock` that holds the same name. */
export class WouldDeadlockError extends named('WOULD_DEADLOCK') {}
/** `ERR_LEASEHOLD_INVALID_ARGUMENT`: an argument or option is wrong; nothing was done. */
export class InvalidArgumentError extends named('INVALID_ARGUMENT') {}
/** `ERR_LEASEHOLD_CLOSED`: the client was closed. */
export class ClosedError extends named('CLOSED') {}
/** `ERR_LEASEHOLD_FORKED`: the guard belongs to the parent of this process. */
export class ForkedError extends named('FORKED') {}
/** `ERR_LEASEHOLD_UNAVAILABLE`: no endpoint could be reached. */
export class UnavailableError extends named('UNAVAILABLE') {}
/** `ERR_LEASEHOLD_DEADLINE_EXCEEDED`: etcd did not answer in time; a write may or may not have taken effect. */
export class DeadlineExceededError extends named('DEADLINE_EXCEEDED') {}
/** `ERR_LEASEHOLD_UNAUTHENTICATED`: etcd refused the user, the password or the certificate. */
export class UnauthenticatedError extends named('UNAUTHENTICATED') {}
/** `ERR_LEASEHOLD_PERMISSION_DENIED`: the user's roles do not allow this key. */
export class PermissionDeniedError extends named('PERMISSION_DENIED') {}
/** `ERR_LEASEHOLD_LIMIT_MISMATCH`: contenders of one name disagree about its limit. */
export class LimitMismatchError extends named('LIMIT_MISMATCH') {}
/** `ERR_LEASEHOLD_UNSUPPORTED`: the server, or this build, cannot do that. */
export class UnsupportedError extends named('UNSUPPORTED') {}
/** `ERR_LEASEHOLD_RESOURCE_EXHAUSTED`: etcd is out of space or refuses more requests. */
export class ResourceExhaustedError extends named('RESOURCE_EXHAUSTED') {}
/** `ERR_LEASEHOLD_INTERNAL`: a bug in leasehold; please report it. */
export class InternalError extends named('INTERNAL') {}

const CLASSES: { [name in Name]: new (message: string, options?: LostOptions) => LeaseholdError } = {
  NOT_ACQUIRED: NotAcquiredError,
  CANCELLED: CancelledError,
  LOST: LostError,
  NOT_HELD: NotHeldError,
  WOULD_DEADLOCK: WouldDeadlockError,
  INVALID_ARGUMENT: InvalidArgumentError,
  CLOSED: ClosedError,
  FORKED: ForkedError,
  UNAVAILABLE: UnavailableError,
  DEADLINE_EXCEEDED: DeadlineExceededError,
  UNAUTHENTICATED: UnauthenticatedError,
  PERMISSION_DENIED: PermissionDeniedError,
  LIMIT_MISMATCH: LimitMismatchError,
  UNSUPPORTED: UnsupportedError,
  RESOURCE_EXHAUSTED: ResourceExhaustedError,
  INTERNAL: InternalError,
}

// As Node's own errors do: the name of the class begins the stack. Not by what the class says of itself, which bundlers cut to a
// letter or two.
name(LeaseholdError, 'LeaseholdError')
for (const [code, type] of Object.entries(CLASSES)) {
  const words = code.split('_').map((word) => `${word[0]}${word.slice(1).toLowerCase()}`)
  name(type, `${words.join('')}Error`)
}

function name(type: { prototype: object }, value: string): void {
  Object.defineProperty(type.prototype, 'name', { value, configurable: true, writable: true })
}

/** The error that the core's failure is here. One of a later core keeps its name. */
export function toError({ code, message, reason }: Failure): LeaseholdError {
  if (!isName(code)) return new LeaseholdError(code as Name, message)
  return new CLASSES[code](message, { reason: reason as LostReason | undefined })
}

/** An error of this package's own door. */
export function invalidArgument(message: string): LeaseholdError {
  return new InvalidArgumentError(message)
}

/** What the native module throws has the name of the error as its `code`. */
export function fromThrown(thrown: unknown): unknown {
  // By what it is rather than by its class: native code throws errors of Node's own realm, and a test runner may run this
  // package in another one.
  if (!types.isNativeError(thrown) || !('code' in thrown) || typeof thrown.code !== 'string') return thrown
  const { code, message } = thrown
  // Napi's own: a value that cannot be converted, such as a lone surrogate, or a number where a text belongs.
  if (/^(InvalidArg|\w+Expected)$/.test(code)) return invalidArgument(message)
  return toError({ code: isName(code) ? code : 'INTERNAL', message })
}

/** Whether this is leasehold's error of this name. */
export function hasCode(error: unknown, name: Name): error is LeaseholdError {
  return error instanceof LeaseholdError && error.code === `ERR_LEASEHOLD_${name}`
}

function isName(code: string): code is Name {
  return Object.hasOwn(CLASSES, code)
}
