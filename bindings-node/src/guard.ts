/** A guard: the proof that its owner holds a lock now. */

import { AsyncResource } from 'node:async_hooks'
import { type InspectOptions, inspect, types } from 'node:util'
import { Emitter } from './emitter'
import { hasCode, invalidArgument, type LostReason } from './errors'
import { Loss } from './loss'
import type { Step, Written } from './module'
import { native } from './native'
import { brought, operations } from './operations'
import { type CallOptions, checkCall, checkText, milliseconds } from './options'

/** The events of a {@link Guard}. */
export interface GuardEvents {
  /**
   * The lock was lost: stop the work that it protects. Each listener is told once, also one that is added after the loss;
   * none is told of a release.
   */
  lost: [reason: LostReason]
}

/** One step of {@link Guard.txn}. */
export type TxnStep =
  | { put: string | Uint8Array; value: string | Uint8Array }
  | { delete: string | Uint8Array }
  | { get: string | Uint8Array }

/** What a guarded transaction did. */
export interface Committed {
  /** The revision of etcd after the transaction; if it wrote, the revision of its writes. */
  revision: bigint
  /** How many keys were deleted. */
  deleted: number
  /** The values read, in the order of the reads; null where the key did not exist. */
  values: (Buffer | null)[]
}

/**
 * A lock that is held. Whoever has the guard is the owner, whatever function or request it was acquired in.
 *
 * Release it: a guard that is forgotten stays held, and renewed, until its client is closed or the process exits. Node warns
 * of each that was garbage collected, with the code `LEASEHOLD_FORGOTTEN_GUARD`.
 */
export class Guard extends Emitter<GuardEvents> {
  /** @internal What the native module knows it by: collected with the guard. */
  protected readonly handle: object
  #loss: Loss | undefined

  /** @internal */
  constructor(handle: object) {
    super()
    this.handle = handle
  }

  /** The name of the lock, as it was asked for; of several, the first. */
  get name(): string {
    return native.guardName(this.handle)
  }

  /**
   * The fencing token: greater than that of every earlier owner of the same name.
   *
   * Send it along with every write that the lock protects, and let the receiver refuse a smaller one than it has seen. It is
   * the create revision of {@link key}.
   */
  get token(): bigint {
    return native.guardToken(this.handle)
  }

  /**
   * Tells holds apart that share a token, as owners of one place do with `localFirst` and `linger`: owners compare the pair of
   * both. Otherwise always 0.
   */
  get sequence(): bigint {
    return native.guardSequence(this.handle)
  }

  /** The key in etcd that stands for this hold, namespace included. */
  get key(): string {
    return native.guardKey(this.handle)
  }

  /** The keys of all its locks, in the order in which they were asked for; {@link key} is the first. */
  get keys(): readonly string[] {
    return native.guardKeys(this.handle)
  }

  /** The id of the lease in etcd that keeps the key alive, in lower-case hexadecimal as etcd's own tools print it. */
  get lease(): string {
    return native.guardLease(this.handle)
  }

  /**
   * Whether the lock is certainly still held. Asks nobody: it compares the session's deadline with the clock, so the answer
   * is right at the first call after the process was frozen.
   */
  get held(): boolean {
    return native.guardHeld(this.handle)
  }

  /** For how many milliseconds the lock is certainly still held if no renewal succeeds from now on; 0 if it is lost. */
  get remaining(): number {
    return native.guardRemaining(this.handle)
  }

  /**
   * Why the lock is not held any more; undefined while it is, and if it was released in time. Asks nobody: for the moment in
   * which etcd is asked, a lease that was revoked is taken for a key that was deleted. The event `lost` tells it for certain.
   */
  get lostReason(): LostReason | undefined {
    return (native.guardLostReason(this.handle) as LostReason | null) ?? undefined
  }

  /**
   * Aborts when the lock is lost, with a `LostError` as its reason: give it to whatever works under the lock. It is aborted
   * already if it is read after the loss. Never aborts after a release.
   */
  get signal(): AbortSignal {
    return this.#watch().signal(this.lostReason)
  }

  /**
   * Releases the lock and waits until etcd has confirmed it.
   *
   * @throws `ERR_LEASEHOLD_LOST` if the lock was lost before: what it protected may have been done by somebody else
   * meanwhile. `ERR_LEASEHOLD_NOT_HELD` if it was released before. `ERR_LEASEHOLD_DEADLINE_EXCEEDED` or
   * `ERR_LEASEHOLD_UNAVAILABLE` if etcd could not be asked in time: the lock is released as far as this process is
   * concerned, and its key is deleted in the background or ends with its lease.
   */
  async release(): Promise<void> {
    brought(await operations().run((tag) => operations().release(tag, this.handle)))
  }

  /**
   * Makes the hold last at least `span` milliseconds (2,000 to 30 days) from now, and waits for etcd's word on it. For a hold
   * that is renewed this is a renewal at once, and so a proof that the lock is held now.
   *
   * @throws `ERR_LEASEHOLD_INVALID_ARGUMENT`; `ERR_LEASEHOLD_LOST`; `ERR_LEASEHOLD_NOT_HELD` after a release;
   * `ERR_LEASEHOLD_DEADLINE_EXCEEDED` if etcd did not answer within the request timeout.
   */
  async extend(span: number, options: CallOptions = {}): Promise<void> {
    const { signal } = checkCall(options)
    if (typeof span !== 'number' || Number.isNaN(span)) throw invalidArgument('span must be a number of milliseconds')
    brought(
      await operations().run((tag) => native.guardExtend(tag, this.handle, milliseconds(Math.max(span, 0))), signal),
    )
  }

  /**
   * Writes `value` under `key` (below the client's namespace) if the lock is still held, in one transaction with the check
   * of the fencing token. Resolves to the revision of the write.
   *
   * @throws `ERR_LEASEHOLD_LOST` if the hold's key is gone: nothing was written. `ERR_LEASEHOLD_DEADLINE_EXCEEDED` or
   * `ERR_LEASEHOLD_UNAVAILABLE` if there was no answer: it may have been written. It is not repeated, because a repeated
   * write could undo a later one.
   */
  async put(key: string | Uint8Array, value: string | Uint8Array, options: CallOptions = {}): Promise<bigint> {
    const { signal } = checkCall(options)
    const [raw, bytes] = [toBytes('key', key), toBytes('value', value)]
    return brought(await operations().run<bigint>((tag) => native.guardPut(tag, this.handle, raw, bytes), signal))
  }

  /** Deletes `key` if the lock is still held. Resolves to whether it existed. Errors as {@link put}. */
  async delete(key: string | Uint8Array, options: CallOptions = {}): Promise<boolean> {
    const { signal } = checkCall(options)
    const raw = toBytes('key', key)
    return brought(await operations().run<boolean>((tag) => native.guardDelete(tag, this.handle, raw), signal))
  }

  /**
   * Reads and writes in one transaction that takes effect only if the lock is still held. etcd allows 128 steps by default.
   * Errors as {@link put}.
   */
  async txn(steps: readonly TxnStep[], options: CallOptions = {}): Promise<Committed> {
    const { signal } = checkCall(options)
    if (!Array.isArray(steps)) throw invalidArgument('the steps of a transaction are a list')
    const raw = steps.map(toStep)
    return brought(await operations().run<Written>((tag) => native.guardTxn(tag, this.handle, raw), signal))
  }

  /** As {@link release}; a guard that was released before is left alone. For `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release()
    } catch (error) {
      if (!hasCode(error, 'NOT_HELD')) throw error
    }
  }

  /** For logs: what it is, with the token as a text, because JSON has no bigints. */
  toJSON(): { name: string; token: string; key: string; held: boolean } {
    const { name, token, key, held } = this
    return { name, token: String(token), key, held }
  }

  /** What `console.log` shows. */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { name, token, key, held } = this
    return `${this.kind} ${inspect({ name, token, key, held }, options)}`
  }

  /** @internal What it is, for people: bundlers cut the name of the class to a letter or two. */
  protected get kind(): string {
    return 'Guard'
  }

  protected override listened(event: keyof GuardEvents, listener: () => void): void {
    if (event === 'lost') this.#watch().catchUp(listener)
  }

  /**
   * Asks the core to tell of the loss: once, and only if somebody wants to know, for it is not free. He is told in his own
   * asynchronous context.
   */
  #watch(): Loss {
    if (this.#loss === undefined) {
      this.#loss = new Loss(this.name, this.behind)
      operations().subscribe<LostReason>(
        (tag) => native.guardLost(tag, this.handle),
        AsyncResource.bind(teller(this.#loss)),
      )
    }
    return this.#loss
  }
}

/** A function of its own, because functions made in one place keep alive what any of them needs: the guard, say. */
function teller(loss: Loss): (reason: LostReason | undefined) => void {
  // Without a reason, it was released.
  return (reason) => reason !== undefined && loss.tell(reason)
}

const STEPS = 'a step of a transaction is { put, value }, { delete } or { get }'

function toStep(step: TxnStep | null | undefined): Step {
  if (typeof step !== 'object' || step === null) throw invalidArgument(STEPS)
  if ('put' in step) return { kind: 'put', key: toBytes('key', step.put), value: toBytes('value', step.value) }
  if ('delete' in step) return { kind: 'delete', key: toBytes('key', step.delete) }
  if ('get' in step) return { kind: 'get', key: toBytes('key', step.get) }
  throw invalidArgument(STEPS)
}

/** Bytes, or a text as UTF-8. */
export function toBytes(what: string, value: unknown): Uint8Array {
  // Of whatever realm.
  return types.isUint8Array(value) ? value : Buffer.from(checkText(what, value))
}
