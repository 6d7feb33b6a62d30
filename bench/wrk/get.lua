-- GetItem of a random item.
local common = dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "common.lua")

function init(args)
  request = common.cycle(4000, function()
    return common.post("GetItem", '{"TableName":"' .. args[1] .. '","Key":{' .. common.key(common.random_key()) .. "}}")
  end)
end
