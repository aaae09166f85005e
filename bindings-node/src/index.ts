/**
 * leasehold: a distributed lock on etcd v3 that you hold by lease.
 *
 * Times are in milliseconds. There is no blocking form, on purpose: it would stop the event loop, and with it everything
 * else that the process does.
 */

export type { ClaimOptions, NameOptions, Names } from './claims'
export {
  Client,
  type ClientEvents,
  type Contender,
  type SessionState,
} from './client'
export type { Election, Leader, Leadership, Observer } from './election'
export {
  CancelledError,
  ClosedError,
  DeadlineExceededError,
  type ErrorCode,
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
export type { Lock } from './lock'
export { type LogLevel, type LogRecord, setLogLevel } from './log'
export type { MetricFamily, MetricSample, Metrics } from './metrics'
export type {
  AcquireOptions,
  CallOptions,
  CampaignOptions,
  ClientOptions,
  LocalFirstBound,
  LockOptions,
  ScopeOptions,
  TryOptions,
} from './options'
export { currentGuard } from './scopes'
export {
  type LockInfo,
  type LockManager,
  type LockManagerSnapshot,
  locks,
  type WebLock,
} from './web-locks'
