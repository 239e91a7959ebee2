// Serves one of the stand-ins that come from npm: node serve.mjs dynalite | fauxqs.
// Prints the address when it answers, and ends when its standard input is closed.

import { setTimeout as pause } from 'node:timers/promises'

const host = '127.0.0.1'
const emptyQueuePause = 20 // milliseconds between two looks into an empty queue

const servers = {
  async dynalite () {
    const { default: dynalite } = await import('dynalite')
    const server = dynalite({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 })
    server.keepAliveTimeout = 60_000 // longer than callers keep an idle connection
    await new Promise((resolve, reject) => server.once('error', reject).listen(0, host, resolve))
    return server.address().port
  },
  async fauxqs () {
    const { buildApp } = await import('fauxqs')
    const { SqsStore } = await import('./node_modules/fauxqs/dist/sqs/sqsStore.js')
    const sqsStore = new SqsStore()
    const app = buildApp({ logger: false, stores: { sqsStore } }) // startFauxqs would listen on every interface
    app.addHook('preHandler', (request, reply) => wait(sqsStore, request, reply))
    await app.listen({ port: 0, host })
    return app.server.address().port
  },
}

// wait does the waiting of a receive, so that it takes messages only for a receiver that has not left.
async function wait (sqsStore, { headers, body, raw: { socket } }, reply) {
  if (headers['x-amz-target'] !== 'AmazonSQS.ReceiveMessage' || !(body.WaitTimeSeconds > 0 && body.WaitTimeSeconds <= 20)) return
  const queue = sqsStore.getQueue(body.QueueUrl)
  for (const until = Date.now() + body.WaitTimeSeconds * 1000; queue && Date.now() < until; await pause(emptyQueuePause)) {
    if (socket.readableEnded || socket.destroyed) return reply.hijack()
    queue.processTimers()
    if (queue.messages.length > 0) break
  }
  body.WaitTimeSeconds = 0
}

process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
console.log(`http://${host}:${await servers[process.argv[2]]()}`)
