-- BatchWriteItem of 25 items of one partition.
local common = dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "common.lua")

function init(args)
  request = common.cycle(1000, function()
    local partition, start = math.random(0, common.partitions - 1), math.random(0, 75)
    local writes = {}
    for i = 1, 25 do
      writes[i] = '{"PutRequest":{"Item":' .. common.item(partition, start + i - 1) .. "}}"
    end
    return common.post("BatchWriteItem", '{"RequestItems":{"' .. args[1] .. '":[' .. table.concat(writes, ",") .. "]}}")
  end)
end
