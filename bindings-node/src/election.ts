/** An election: candidates queue as for a lock, the first of them leads, and everybody may know what it proclaims. */

import { Guard, toBytes } from './guard'
import type { ClientHandle, Seen } from './module'
import { native } from './native'
import { brought, operations } from './operations'
import { acquiring, type CallOptions, type CampaignOptions, checkCall, checkCampaign, checkText } from './options'
import { Stream } from './stream'

/** Who leads an election. */
export interface Leader {
  /** Its key in etcd, namespace included. */
  key: string
  /** Its fencing token: greater than that of every leader before. */
  token: bigint
  /** What it proclaims; `String(value)` where that is a text. */
  value: Buffer
  /** The revision of etcd at which it proclaimed that: greater than that of every proclamation before. */
  revision: bigint
}

/** A lead that is held: a guard that can proclaim. Its `release` resigns. */
export class Leadership extends Guard {
  /**
   * Says something else, of at most 1,500,000 bytes, if it still leads.
   *
   * @throws `ERR_LEASEHOLD_LOST` if it leads no more: nothing was proclaimed. Otherwise as {@link Guard.put}.
   */
  async proclaim(value: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    const { signal } = checkCall(options)
    const bytes = toBytes('value', value)
    brought(await operations().run((tag) => native.guardProclaim(tag, this.handle, bytes), signal))
  }

  /** @internal */
  protected override get kind(): string {
    return 'Leadership'
  }

  /** As {@link Guard.release}, by the name that elections have for it. */
  async resign(): Promise<void> {
    await this.release()
  }
}

/**
 * The election of a name: the one of Go's `concurrency.Election` and of `etcdctl elect`, with which it shares its queue. Made by
 * `client.election(name)`, which does nothing yet. A lock of the same name stands in the same queue; give elections names of
 * their own.
 */
export class Election {
  /** Its name. */
  readonly name: string
  readonly #client: ClientHandle

  /** @internal */
  constructor(client: ClientHandle, name: string) {
    this.#client = client
    this.name = checkText('the name of an election', name)
  }

  /**
   * Stands for election with a proclamation of at most 1,500,000 bytes, and waits until it leads.
   *
   * @throws As `client.acquire`.
   */
  async campaign(value: string | Uint8Array, options: CampaignOptions = {}): Promise<Leadership> {
    const checked = checkCampaign(options)
    const [bytes, how] = [toBytes('value', value), acquiring(checked)]
    const result = await operations().run<object>(
      (tag) => this.#client.campaign(tag, this.name, bytes, how),
      checked.signal,
      (won) => new Guard(won).release().catch(() => {}),
    )
    return new Leadership(brought(result))
  }

  /** Who leads now; null while nobody does. Errors as `client.queue`. */
  async leader(options: CallOptions = {}): Promise<Leader | null> {
    const { signal } = checkCall(options)
    const seen = await operations().run<Seen>((tag) => this.#client.leader(tag, this.name), signal)
    return brought(seen).leader ?? null
  }

  /**
   * Tells who leads: now, and then every new leader, every proclamation, and null when a leader ends that nobody follows at
   * once; in the order in which etcd has made them. It holds no place in the queue. A loop that is left ends it, and so does
   * the close of its client; a loop that waits keeps the process alive.
   *
   * The loop throws `ERR_LEASEHOLD_UNAVAILABLE` or `ERR_LEASEHOLD_DEADLINE_EXCEEDED` if etcd does not answer at first;
   * `ERR_LEASEHOLD_PERMISSION_DENIED` or `ERR_LEASEHOLD_UNAUTHENTICATED`; the signal's `reason` if it aborts. A connection
   * that is lost later is no error: see {@link Observer.isAfterGap}.
   */
  observe(options: CallOptions = {}): Observer {
    const { signal } = checkCall(options)
    return new Observer((tag) => this.#client.observe(tag, this.name), signal)
  }
}

/** What `for await` takes from {@link Election.observe}. */
export class Observer extends Stream<Seen, Leader | null> {
  #isAfterGap = false

  /**
   * Whether other changes may have come between what it told last and what it told before: the connection to etcd was lost
   * meanwhile, etcd was restored from a backup, or nobody listened for more than 1,024 changes.
   */
  get isAfterGap(): boolean {
    return this.#isAfterGap
  }

  protected override tell({ leader, isAfterGap }: Seen, hasLost: boolean): Leader | null {
    this.#isAfterGap = isAfterGap || hasLost
    return leader ?? null
  }
}
