-- GetItem of a random item of those that were loaded.
local common = dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "common.lua")

function init(args)
  local loaded = tonumber(args[2])
  request = common.cycle(4000, function()
    local key = common.key(math.random(0, loaded - 1), math.random(0, common.rows - 1))
    return common.post("GetItem", '{"TableName":"' .. args[1] .. '","Key":{' .. key .. "}}")
  end)
end
