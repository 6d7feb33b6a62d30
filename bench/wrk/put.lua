-- PutItem over a random item of the 100,000 that the key space holds.
local common = dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "common.lua")

function init(args)
  request = common.cycle(4000, function()
    return common.post("PutItem", '{"TableName":"' .. args[1] .. '","Item":' .. common.item(common.random_key()) .. "}")
  end)
end
