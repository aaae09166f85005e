/** Asks an observer once, leaves it, and falls off the end. */

import { Client } from '../../dist/index.mjs'

const [endpoint, name] = process.argv.slice(2)
console.log((await new Client(endpoint).election(name).observe().next()).value)
