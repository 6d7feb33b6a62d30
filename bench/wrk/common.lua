-- What all four loads share: the item, the keys and the answer to `done`.
-- wrk hands the words after `--` to init(): the table's name, then the load's own numbers.

local common = {}

common.partitions = 1000
common.rows = 100

function common.key(partition, row)
  return string.format('"pk":{"S":"partition-%05d"},"sk":{"S":"row-%05d"}', partition, row)
end

-- The same 300-byte item as bench/workload.py's `item`.
function common.item(partition, row)
  return "{" .. common.key(partition, row) .. ',"n":{"N":"' .. row .. '"},"name":{"S":"item ' .. row
    .. '"},"data":{"S":"' .. string.rep("x", 256 - #tostring(row)) .. '"}}'
end

function common.random_key()
  return math.random(0, common.partitions - 1), math.random(0, common.rows - 1)
end

local headers = { ["Content-Type"] = "application/x-amz-json-1.0" }
local credential = "AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/dynamodb/aws4_request, "
  .. "SignedHeaders=host;x-amz-date;x-amz-target, Signature="

local function signature()
  local parts = {}
  for i = 1, 16 do parts[i] = string.format("%04x", math.random(0, 65535)) end
  return table.concat(parts)
end

-- As a client sends them: each request has a date and a signature of its own.
function common.post(operation, body)
  headers["X-Amz-Target"] = "DynamoDB_20120810." .. operation
  headers["X-Amz-Date"] = string.format("20260101T%06d", math.random(0, 235959)) .. "Z"
  headers["Authorization"] = credential .. signature()
  return wrk.format("POST", "/", headers, body)
end

-- Requests made once and sent again and again: the client must not be what is measured.
function common.cycle(count, make)
  local requests, turn = {}, 0
  for i = 1, count do requests[i] = make(i) end
  return function()
    turn = turn % count + 1
    return requests[turn]
  end
end

function done(summary, latency, _)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read
    + summary.errors.write + summary.errors.timeout
  io.write(string.format(
    'RESULT {"requests":%d,"microseconds":%d,"failed":%d,"p50":%d,"p99":%d,"p999":%d}\n',
    summary.requests, summary.duration, failed, latency:percentile(50), latency:percentile(99),
    latency:percentile(99.9)))
end

return common
