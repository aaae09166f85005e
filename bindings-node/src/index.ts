/**
 * leasehold: a distributed lock on etcd v3 that you hold by lease.
 *
 * Times are in milliseconds. There is no blocking form, on purpose: it would stop the event loop, and with it everything
 * else that the process does.
 */

export {
  Client,
  type ClientEvents,
  type Contender,
  type SessionState,
} from './client'
export {
  CancelledError,
  ClosedError,
  DeadlineExceededError,
  ForkedError,
  InternalError,
  InvalidArgumentError,
  LeaseholdError,
  LimitMismatchError,
  LostError,
  type LostReason,
  NotAcquiredError,
  NotHeldError,
  PermissionDeniedError,
  ResourceExhaustedError,
  UnauthenticatedError,
  UnavailableError,
  UnsupportedError,
  WouldDeadlockError,
} from './errors'
export type { Committed, Guard, GuardEvents, TxnStep } from './guard'
export { type LogLevel, type LogRecord, setLogLevel } from './log'
export type { AcquireOptions, CallOptions, ClientOptions, TryOptions } from './options'
