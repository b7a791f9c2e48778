-- Claim a Dramatiq broker id as one of a process with the plugin.
--
-- KEYS
--   1  claims  ZSET  Dramatiq broker id -> end of its claim (server time, ms)
-- ARGV
--   1 now in ms, or "" for the server's own   2 how long a claim is remembered, in ms   3 broker id

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
