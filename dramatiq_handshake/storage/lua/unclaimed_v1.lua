-- Tell which Dramatiq broker ids no process with the plugin has claimed. Writes nothing.
--
-- KEYS
--   1  claims  ZSET  Dramatiq broker id -> end of its claim (server time, ms)
-- ARGV
--   1 now in ms, or "" for the server's own   2.. broker ids
-- Returns the unclaimed ones among them.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local unclaimed = {}
for i = 2, #ARGV do
  local claim = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]))
  if not claim or claim <= now then
    unclaimed[#unclaimed + 1] = ARGV[i]
  end
end
return unclaimed
