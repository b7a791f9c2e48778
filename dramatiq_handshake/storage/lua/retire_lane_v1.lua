-- Take a lane off the open ones, unless somebody registered it a moment ago and may be publishing.
--
-- KEYS
--   1  lanes        HASH    lane name -> "<registered, ms>\n<lane as JSON>", all of one base queue
--   2  lanes epoch  STRING  opaque; new whenever a lane is opened, changed or retired
-- ARGV
--   1 now in ms, or "" for the server's own   2 lane name   3 for how long it must not have been
--   registered, in ms   4 a new epoch
-- Returns 1 where the lane is no longer open, 0 where it was registered too recently.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local known = redis.call('HGET', KEYS[1], ARGV[2])
if not known then
  return 1
end
if now - tonumber(string.match(known, '^%d+')) < tonumber(ARGV[3]) then
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[4])
return 1
