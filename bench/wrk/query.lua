-- Query of one partition: 100 items.
local common = dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "common.lua")

function init(args)
  request = common.cycle(1000, function()
    return common.post("Query", '{"TableName":"' .. args[1] .. '","KeyConditionExpression":"pk = :pk",'
      .. string.format('"ExpressionAttributeValues":{":pk":{"S":"partition-%05d"}}}', math.random(0, tonumber(args[2]) - 1)))
  end)
end
