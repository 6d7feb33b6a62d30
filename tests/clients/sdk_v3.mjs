// The AWS SDK for JavaScript v3 against a DynamoDB endpoint: node sdk_v3.mjs FOLDER_OF_NODE_MODULES URL
// Prints one line a step and exits with 0, or with 1 and the first mismatch.

import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const [folder, endpoint] = process.argv.slice(2)
const require = createRequire(join(folder, 'package.json'))
const sdk = require('@aws-sdk/client-dynamodb')
const lib = require('@aws-sdk/lib-dynamodb')
const streamsSdk = require('@aws-sdk/client-dynamodb-streams')

const config = { endpoint, region: 'us-east-1', credentials: { accessKeyId: 'AKIDCLIENTS', secretAccessKey: 'secret' } }
const client = new sdk.DynamoDBClient(config)
const documents = lib.DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } })
const streams = new streamsSdk.DynamoDBStreamsClient(config)

const TableName = `sdk-v3-${process.pid}`
const order = (number, more = {}) => ({ customer: 'ada', order: number, ...more })
const byCustomer = { KeyConditionExpression: 'customer = :c', ExpressionAttributeValues: { ':c': 'ada' } }

async function collected(pages) {
  const all = []
  for await (const page of pages) all.push(page)
  return all
}

const numbers = pages => pages.flatMap(page => page.Items).map(item => item.order)

const steps = {
  async 'a table is made and waited for'() {
    await client.send(new sdk.CreateTableCommand({
      TableName,
      BillingMode: 'PAY_PER_REQUEST',
      KeySchema: [{ AttributeName: 'customer', KeyType: 'HASH' }, { AttributeName: 'order', KeyType: 'RANGE' }],
      AttributeDefinitions: [
        { AttributeName: 'customer', AttributeType: 'S' },
        { AttributeName: 'order', AttributeType: 'N' },
        { AttributeName: 'state', AttributeType: 'S' },
      ],
      GlobalSecondaryIndexes: [{
        IndexName: 'by_state',
        KeySchema: [{ AttributeName: 'state', KeyType: 'HASH' }, { AttributeName: 'order', KeyType: 'RANGE' }],
        Projection: { ProjectionType: 'ALL' },
      }],
      StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_IMAGE' },
    }))
    const waited = await sdk.waitUntilTableExists({ client, maxWaitTime: 20, minDelay: 1, maxDelay: 1 }, { TableName })
    assert.equal(waited.state, 'SUCCESS')
    const { Table } = await client.send(new sdk.DescribeTableCommand({ TableName }))
    assert.ok(Math.abs(Table.CreationDateTime.getTime() - Date.now()) < 60_000)
  },

  async 'plain values come back as they went'() {
    const item = {
      customer: { S: 'raw' }, order: { N: '1' }, yes: { BOOL: true }, nothing: { NULL: true },
      bytes: { B: new Uint8Array([0, 1, 255]) }, list: { L: [{ S: 'é😀' }, { N: '1.5' }, { L: [] }] },
      map: { M: { deep: { M: {} } } },
    }
    await client.send(new sdk.PutItemCommand({ TableName, Item: item }))
    const Key = { customer: item.customer, order: item.order }
    const { Item } = await client.send(new sdk.GetItemCommand({ TableName, Key, ConsistentRead: true }))
    assert.deepEqual({ ...Item, bytes: { B: new Uint8Array(Item.bytes.B) } }, item)
    await client.send(new sdk.DeleteItemCommand({ TableName, Key }))
  },

  async 'documents come back as they went'() {
    const item = order(-1, {
      name: 'é😀', big: 9007199254740991, half: 0.5, on: true, none: null, list: [1, 'two', { three: [3] }],
      tags: new Set(['a', 'b']), sizes: new Set([1, 2]), bytes: new Uint8Array([0, 255]),
      exact: new lib.NumberValue('12345678901234567890.123456789012345678'),
    })
    await documents.send(new lib.PutCommand({ TableName, Item: item }))
    const precise = lib.DynamoDBDocumentClient.from(new sdk.DynamoDBClient(config), { unmarshallOptions: { wrapNumbers: text => text } })
    const Key = order(-1)
    const { Item: { exact } } = await precise.send(new lib.GetCommand({ TableName, Key }))
    assert.equal(exact, '12345678901234567890.123456789012345678')
    const ProjectionExpression = '#n, big, half, #on, #none, #list, tags, sizes, #bytes'
    const ExpressionAttributeNames = { '#n': 'name', '#on': 'on', '#none': 'none', '#list': 'list', '#bytes': 'bytes' }
    const { Item } = await documents.send(new lib.GetCommand({ TableName, Key, ProjectionExpression, ExpressionAttributeNames }))
    const { customer: _c, order: _o, exact: _e, ...wanted } = item
    assert.deepEqual({ ...Item, bytes: new Uint8Array(Item.bytes) }, wanted)
    await documents.send(new lib.DeleteCommand({ TableName, Key }))
  },

  async 'a batch is written and read'() {
    const puts = Array.from({ length: 25 }, (_, n) => ({
      PutRequest: { Item: order(n, { cents: n * 10, state: n % 2 ? 'paid' : 'open' }) },
    }))
    const written = await documents.send(new lib.BatchWriteCommand({ RequestItems: { [TableName]: puts } }))
    assert.deepEqual(written.UnprocessedItems, {})
    const Keys = [order(3), order(24), order(99)]
    const read = await documents.send(new lib.BatchGetCommand({ RequestItems: { [TableName]: { Keys } } }))
    assert.deepEqual(read.Responses[TableName].map(item => item.order).sort((a, b) => a - b), [3, 24])
  },

  async 'paginators follow queries, scans and lists of tables'() {
    const paged = { client: documents, pageSize: 10 }
    const queried = await collected(lib.paginateQuery(paged, { TableName, ...byCustomer }))
    assert.deepEqual(queried.map(page => page.Count), [10, 10, 5])
    assert.deepEqual(numbers(queried), Array.from({ length: 25 }, (_, n) => n))
    const scanned = await collected(lib.paginateScan({ client: documents, pageSize: 4 }, { TableName }))
    assert.equal(numbers(scanned).length, 25)
    const tables = await collected(sdk.paginateListTables({ client, pageSize: 1 }, {}))
    assert.ok(tables.flatMap(page => page.TableNames).includes(TableName))
  },

  async 'an index is queried backwards'() {
    const { Items, Count, ConsumedCapacity } = await documents.send(new lib.QueryCommand({
      TableName,
      IndexName: 'by_state',
      KeyConditionExpression: '#s = :s AND #o BETWEEN :low AND :high',
      FilterExpression: 'cents <> :no',
      ExpressionAttributeNames: { '#s': 'state', '#o': 'order' },
      ExpressionAttributeValues: { ':s': 'paid', ':low': 3, ':high': 9, ':no': 50 },
      ScanIndexForward: false,
      ReturnConsumedCapacity: 'INDEXES',
    }))
    assert.deepEqual([Items.map(item => item.order), Count], [[9, 7, 3], 3])
    assert.equal(ConsumedCapacity.GlobalSecondaryIndexes.by_state.CapacityUnits, 0.5)
  },

  async 'an update answers what it changed'() {
    const { Attributes } = await documents.send(new lib.UpdateCommand({
      TableName,
      Key: order(1),
      UpdateExpression: 'SET cents = cents + :more, seen = list_append(if_not_exists(seen, :none), :now) REMOVE nothing_there',
      ExpressionAttributeValues: { ':more': 5, ':none': [], ':now': ['today'] },
      ReturnValues: 'UPDATED_NEW',
    }))
    assert.deepEqual(Attributes, { cents: 15, seen: ['today'] })
  },

  async 'errors have their classes and what they carry'() {
    const conditional = new lib.PutCommand({
      TableName,
      Item: order(2),
      ConditionExpression: 'attribute_not_exists(customer)',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    })
    await assert.rejects(documents.send(conditional), error => {
      assert.ok(error instanceof sdk.ConditionalCheckFailedException)
      assert.equal(error.message, 'The conditional request failed')
      assert.deepEqual(error.Item.cents, { N: '20' })
      assert.equal(error.$metadata.httpStatusCode, 400)
      return true
    })
    const unknown = new sdk.DescribeTableCommand({ TableName: 'no-such-table' })
    await assert.rejects(client.send(unknown), sdk.ResourceNotFoundException)
    const bad = new lib.GetCommand({ TableName, Key: { customer: 'ada' } })
    await assert.rejects(documents.send(bad), { name: 'ValidationException' })
  },

  async 'a transaction is all or nothing'() {
    const Put = { TableName, Item: order(100) }
    const Update = {
      TableName,
      Key: order(0),
      UpdateExpression: 'SET cents = :n',
      ConditionExpression: 'cents > :n',
      ExpressionAttributeValues: { ':n': 1 },
    }
    await assert.rejects(documents.send(new lib.TransactWriteCommand({ TransactItems: [{ Put }, { Update }] })), error => {
      assert.ok(error instanceof sdk.TransactionCanceledException)
      assert.deepEqual(error.CancellationReasons.map(reason => reason.Code), ['None', 'ConditionalCheckFailed'])
      return true
    })
    await documents.send(new lib.TransactWriteCommand({ TransactItems: [{ Put }], ClientRequestToken: `once-${process.pid}` }))
    const TransactItems = [order(100), order(101)].map(Key => ({ Get: { TableName, Key } }))
    const { Responses } = await documents.send(new lib.TransactGetCommand({ TransactItems }))
    assert.deepEqual(Responses.map(answer => answer.Item), [order(100), undefined])
  },

  async 'PartiQL selects and changes'() {
    const run = (Statement, Parameters) => documents.send(new lib.ExecuteStatementCommand({ Statement, Parameters }))
    await run(`UPDATE "${TableName}" SET cents = ? WHERE customer = ? AND "order" = ?`, [7, 'ada', 3])
    const { Items } = await run(`SELECT cents FROM "${TableName}" WHERE customer = ? AND "order" IN [3, 4]`, ['ada'])
    assert.deepEqual(Items, [{ cents: 7 }, { cents: 40 }])
    const Statements = [{ Statement: `SELECT * FROM "${TableName}" WHERE customer = 'ada' AND "order" = 100` }]
    const batch = await documents.send(new lib.BatchExecuteStatementCommand({ Statements }))
    assert.deepEqual(batch.Responses.map(answer => answer.Item), [order(100)])
  },

  async 'many calls at once are each answered'() {
    const gets = Array.from({ length: 100 }, (_, n) => documents.send(new lib.GetCommand({ TableName, Key: order(n % 25) })))
    const found = (await Promise.all(gets)).map(answer => answer.Item.order)
    assert.deepEqual(found, Array.from({ length: 100 }, (_, n) => n % 25))
  },

  async 'the stream tells what happened'() {
    const { Streams: [{ StreamArn }] } = await streams.send(new streamsSdk.ListStreamsCommand({ TableName }))
    const { StreamDescription } = await streams.send(new streamsSdk.DescribeStreamCommand({ StreamArn }))
    const records = []
    for (const { ShardId } of StreamDescription.Shards) {
      const start = { StreamArn, ShardId, ShardIteratorType: 'TRIM_HORIZON' }
      const { ShardIterator } = await streams.send(new streamsSdk.GetShardIteratorCommand(start))
      records.push(...(await streams.send(new streamsSdk.GetRecordsCommand({ ShardIterator }))).Records)
    }
    const names = records.slice(0, 4).map(record => record.eventName)
    assert.deepEqual(names, ['INSERT', 'REMOVE', 'INSERT', 'REMOVE'])
    assert.deepEqual(records[0].dynamodb.NewImage.bytes.B, new Uint8Array([0, 1, 255]))
    assert.ok(records[0].dynamodb.ApproximateCreationDateTime instanceof Date)
  },

  async 'the table is dropped and waited for'() {
    await client.send(new sdk.DeleteTableCommand({ TableName }))
    await sdk.waitUntilTableNotExists({ client, maxWaitTime: 20, minDelay: 1, maxDelay: 1 }, { TableName })
  },
}

for (const [name, step] of Object.entries(steps)) {
  try {
    await step()
    console.log(`ok   ${name}`)
  } catch (error) {
    console.log(`FAIL ${name}\n${error.stack}`)
    process.exit(1)
  }
}
