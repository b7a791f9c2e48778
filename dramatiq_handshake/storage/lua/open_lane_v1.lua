-- Put a lane among the open ones, or renew it.
--
-- KEYS
--   1  lanes        HASH    lane name -> "<registered, ms>\n<lane as JSON>", all of one base queue
--   2  lanes epoch  STRING  opaque; new whenever a lane is opened, changed or retired
-- ARGV
--   1 now in ms, or "" for the server's own   2 lane name   3 lane as JSON   4 a new epoch

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local known = redis.call('HGET', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', now) .. '\n' .. ARGV[3])
if not known or string.match(known, '\n(.*)$') ~= ARGV[3] or redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('SET', KEYS[2], ARGV[4])
end
return 1
