/** Waits for a lock that somebody holds, with nothing else to keep it alive; says when it has it. */

import { Client } from '../../dist/index.mjs'

const [endpoint, lock] = process.argv.slice(2)
new Client(endpoint, { ttl: 5_000 }).acquire(lock).then((guard) => console.log(`got ${guard.token}`))
console.log('waits')
