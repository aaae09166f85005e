/** Leads an election and observes it, with nothing else to keep it alive, until somebody says that it is the end. */

import { Client } from '../../dist/index.mjs'

const [endpoint, name] = process.argv.slice(2)
const election = new Client(endpoint).election(name)
async function observe() {
  const observer = election.observe()
  console.log((await observer.next()).value)
  await election.campaign('its own')
  for await (const leader of observer) {
    console.log(String(leader?.value))
    if (String(leader?.value) === 'end') break
  }
}
observe()
