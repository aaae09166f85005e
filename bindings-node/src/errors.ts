/** What can go wrong: one class for each error number, the same numbers and names as in every other language. */

import type { Failure } from './module'
import { native } from './native'

/** Why a guard no longer proves that it holds its lock. */
export type LostReason = 'EXPIRED' | 'KEY_DELETED' | 'LEASE_REVOKED' | 'CLIENT_CLOSED' | 'FORKED' | 'STORE_RESTORED'

/** The number of each error, by its name. */
const NUMBERS = native.errorNumbers()

/**
 * An error of leasehold. Its message says what was wrong and what to do about it, and holds no secret.
 *
 * Decide by {@link code}: it is right also where two copies of this package are installed, and `instanceof` is not.
 */
export class LeaseholdError extends Error {
  /** The stable name, such as `ERR_LEASEHOLD_LOST`. */
  readonly code: `ERR_LEASEHOLD_${string}`
  /** The stable number, such as 12; the same in every language. */
  readonly number: number

  /** @internal */
  constructor(failure: Failure, options?: ErrorOptions) {
    super(failure.message, options)
    this.code = `ERR_LEASEHOLD_${failure.code}`
    this.number = NUMBERS[failure.code] ?? Number(NUMBERS['INTERNAL'])
  }
}

/** `ERR_LEASEHOLD_NOT_ACQUIRED`: the limit of the wait has passed. */
export class NotAcquiredError extends LeaseholdError {}
/** `ERR_LEASEHOLD_CANCELLED`. An `AbortSignal` rejects with its own reason instead. */
export class CancelledError extends LeaseholdError {}
/** `ERR_LEASEHOLD_LOST`: the lock was lost; what it protected may have been done by somebody else meanwhile. */
export class LostError extends LeaseholdError {
  /** Why, where that is known. */
  readonly reason: LostReason | undefined

  /** @internal */
  constructor(failure: Failure, options?: ErrorOptions) {
    super(failure, options)
    this.reason = failure.reason as LostReason | undefined
  }
}
/** `ERR_LEASEHOLD_NOT_HELD`: released before, or nobody has that token. */
export class NotHeldError extends LeaseholdError {}
/** `ERR_LEASEHOLD_WOULD_DEADLOCK`: a `withLock` inside a `withLock` of the same name. */
export class WouldDeadlockError extends LeaseholdError {}
/** `ERR_LEASEHOLD_INVALID_ARGUMENT`: an argument or option is wrong; nothing was done. */
export class InvalidArgumentError extends LeaseholdError {}
/** `ERR_LEASEHOLD_CLOSED`: the client was closed. */
export class ClosedError extends LeaseholdError {}
/** `ERR_LEASEHOLD_FORKED`: the guard belongs to the parent of this process. */
export class ForkedError extends LeaseholdError {}
/** `ERR_LEASEHOLD_UNAVAILABLE`: no endpoint could be reached. */
export class UnavailableError extends LeaseholdError {}
/** `ERR_LEASEHOLD_DEADLINE_EXCEEDED`: etcd did not answer in time; a write may or may not have taken effect. */
export class DeadlineExceededError extends LeaseholdError {}
/** `ERR_LEASEHOLD_UNAUTHENTICATED`: etcd refused the user, the password or the certificate. */
export class UnauthenticatedError extends LeaseholdError {}
/** `ERR_LEASEHOLD_PERMISSION_DENIED`: the user's roles do not allow this key. */
export class PermissionDeniedError extends LeaseholdError {}
/** `ERR_LEASEHOLD_LIMIT_MISMATCH`: contenders of one name disagree about its limit. */
export class LimitMismatchError extends LeaseholdError {}
/** `ERR_LEASEHOLD_UNSUPPORTED`: the server, or this build, cannot do that. */
export class UnsupportedError extends LeaseholdError {}
/** `ERR_LEASEHOLD_RESOURCE_EXHAUSTED`: etcd is out of space or refuses more requests. */
export class ResourceExhaustedError extends LeaseholdError {}
/** `ERR_LEASEHOLD_INTERNAL`: a bug in leasehold; please report it. */
export class InternalError extends LeaseholdError {}

const CLASSES: { [code: string]: typeof LeaseholdError } = {
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

// As Node's own errors do: the name of the class begins the stack.
for (const type of [LeaseholdError, ...Object.values(CLASSES)]) {
  Object.defineProperty(type.prototype, 'name', { value: type.name, configurable: true, writable: true })
}

/** The error that the core's failure is here. */
export function toError(failure: Failure, options?: ErrorOptions): LeaseholdError {
  return new (CLASSES[failure.code] ?? LeaseholdError)(failure, options)
}

/** An error of this package's own door. */
export function invalidArgument(message: string): LeaseholdError {
  return toError({ code: 'INVALID_ARGUMENT', message })
}

/** What the native module throws has the name of the error as its `code`. */
export function fromThrown(thrown: unknown): unknown {
  if (!(thrown instanceof Error) || !('code' in thrown) || typeof thrown.code !== 'string') return thrown
  // Napi's own: a value that cannot be converted, such as a lone surrogate, or a number where a text belongs.
  if (/^(InvalidArg|\w+Expected)$/.test(thrown.code)) return invalidArgument(thrown.message)
  return toError({ code: thrown.code in CLASSES ? thrown.code : 'INTERNAL', message: thrown.message })
}

/** Whether this is leasehold's error of this name. */
export function hasCode(error: unknown, name: string): error is LeaseholdError {
  return error instanceof LeaseholdError && error.code === `ERR_LEASEHOLD_${name}`
}
