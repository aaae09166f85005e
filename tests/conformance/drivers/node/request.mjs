/** Reading a request's fields, and what a request is refused with. A field that is null counts as left out. */

/** Why a request failed: a stable code, and a message for people. */
export class Refusal extends Error {
  constructor(code, message) {
    super(message)
    this.code = code
  }
}

export const malformed = (message) => new Refusal('BAD_REQUEST', message)
export const unsupported = (message) => new Refusal('UNSUPPORTED', message)

export class Request {
  #fields

  constructor(fields) {
    this.#fields = fields
  }

  static parse(line) {
    let fields
    try {
      fields = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(line), wellFormed)
    } catch (error) {
      throw malformed(`a request is a JSON object: ${error.message}`)
    }
    if (typeof fields !== 'object' || fields === null || Array.isArray(fields)) {
      throw malformed('a request is a JSON object')
    }
    return new Request(fields)
  }

  get id() {
    return this.need.field('id')
  }

  field(name) {
    return this.#fields[name] ?? undefined
  }

  /** The same readers for fields that must be there. */
  get need() {
    const required = (read) => (name) => {
      const value = this[read](name)
      if (value === undefined) throw malformed(`the field ${name} is missing`)
      return value
    }
    const readers = ['field', 'text', 'texts', 'millis', 'token']
    return Object.fromEntries(readers.map((read) => [read, required(read)]))
  }

  text(name) {
    return this.#typed(name, 'a text', (value) => typeof value === 'string')
  }

  texts(name) {
    const isText = (item) => typeof item === 'string'
    return this.#typed(name, 'a list of texts', (value) => Array.isArray(value) && value.every(isText))
  }

  flag(name) {
    return this.#typed(name, 'true or false', (value) => typeof value === 'boolean')
  }

  pairs(name) {
    const isText = (item) => typeof item === 'string'
    const isRight = (value) => typeof value === 'object' && !Array.isArray(value) && Object.values(value).every(isText)
    return this.#typed(name, 'an object of texts', isRight)
  }

  millis(name) {
    return this.#whole(name)
  }

  token(name) {
    const value = this.#whole(name)
    return value === undefined ? undefined : BigInt(value)
  }

  /** What of the lock is asked for, as the options of the package; it must never be taken for another kind. */
  claim() {
    const [kind, permits, of] = [this.text('kind') ?? 'mutex', this.permits('permits'), this.permits('limit')]
    if (!['mutex', 'shared', 'semaphore'].includes(kind)) throw unsupported(`there is no lock of the kind ${kind}`)
    if (kind !== 'semaphore') {
      if (permits ?? of) throw new Refusal('INVALID_ARGUMENT', 'only a semaphore has permits and a limit')
      return kind === 'shared' ? { shared: true } : {}
    }
    if (of === undefined) throw malformed('a semaphore needs the field limit')
    return { permits, of }
  }

  /** The lock or the locks, as the package takes names. */
  names() {
    const locks = this.#typed('locks', 'a list of locks', Array.isArray)
    if (locks === undefined) return this.need.text('lock')
    return locks.map((fields) => {
      if (typeof fields !== 'object' || fields === null) throw malformed('a lock of a list is an object')
      const lock = new Request(fields)
      return { name: lock.need.text('lock'), ...lock.claim() }
    })
  }

  /** How the lock is shared within a client, as an option of the package. */
  localFirst() {
    const isRight = (value) => typeof value === 'boolean' || (typeof value === 'object' && !Array.isArray(value))
    const value = this.#typed('local_first', 'true, false or an object', isRight)
    if (typeof value !== 'object') return value
    const bound = new Request(value)
    return { turns: bound.permits('turns'), time: bound.millis('ms') }
  }

  permits(name) {
    return this.#whole(name)
  }

  oneOf(name, known) {
    const value = this.text(name)
    if (value !== undefined && !known.includes(value)) throw malformed(`${name} is ${known.join(' or ')}, not ${value}`)
    return value
  }

  #whole(name) {
    const value = this.#typed(name, 'a whole number', Number.isInteger)
    // What no language's 64 bits can hold stops here.
    if (Math.abs(value) >= 2 ** 63)
      throw new Refusal('INVALID_ARGUMENT', `${name} (TTL, timeout or token) cannot be ${value}`)
    return value
  }

  #typed(name, what, isRight) {
    const value = this.field(name)
    if (value !== undefined && !isRight(value)) throw malformed(`the field ${name} must be ${what}`)
    return value
  }
}

/** JSON can write characters that no UTF-8 can say. */
function wellFormed(name, value) {
  for (const text of [name, value]) {
    if (typeof text === 'string' && !text.isWellFormed()) throw new SyntaxError('it has half a character')
  }
  return value
}
