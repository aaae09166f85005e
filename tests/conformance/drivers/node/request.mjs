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
      fields = JSON.parse(line)
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
    const readers = ['field', 'text', 'texts', 'flag', 'millis', 'token']
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

  millis(name) {
    return this.#typed(name, 'a number of milliseconds', (value) => typeof value === 'number')
  }

  token(name) {
    const value = this.#typed(name, 'a whole number', Number.isInteger)
    return value === undefined ? undefined : BigInt(value)
  }

  oneOf(name, known) {
    const value = this.text(name)
    if (value !== undefined && !known.includes(value)) throw malformed(`${name} is ${known.join(' or ')}, not ${value}`)
    return value
  }

  #typed(name, what, isRight) {
    const value = this.field(name)
    if (value !== undefined && !isRight(value)) throw malformed(`the field ${name} must be ${what}`)
    return value
  }
}
