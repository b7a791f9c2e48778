-- Take messages of one need off the blocked index.
--
-- KEYS
--   1  blocked   ZSET  need id -> when its oldest listed message was blocked (server time, ms)
--   2  messages  HASH  message id -> "<blocked since, ms>\n<message as JSON>", of all needs
--   3  need      HASH  spec (JSON), first (ms), last (sequence), beyond, passed
--   4  listed    ZSET  message id -> sequence
-- ARGV
--   1 now in ms, or "" for the server's own   2 need id   3.. message ids
-- Returns { spec, passed, first, blocked for ms } where the need's last message left, else false.
--
-- An id that is not listed is taken for one of those beyond the cap, as long as there are any.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local need_id = ARGV[2]
local blocked, messages, need, listed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local known = redis.call('HMGET', need, 'spec', 'first', 'beyond', 'passed')
local first, beyond, passed = tonumber(known[2]), tonumber(known[3]) or 0, tonumber(known[4]) or 0
if not first then
  return false
end
for i = 3, #ARGV do
  if redis.call('ZREM', listed, ARGV[i]) == 1 then
    redis.call('HDEL', messages, ARGV[i])
    passed = passed + 1
  elseif beyond > 0 then
    beyond = beyond - 1
    passed = passed + 1
  end
end
local oldest = redis.call('ZRANGE', listed, 0, 0)[1]
if not oldest and beyond == 0 then
  redis.call('DEL', need, listed)
  redis.call('ZREM', blocked, need_id)
  return { known[1], passed, first, math.max(now - first, 0) }
end
redis.call('HSET', need, 'beyond', beyond, 'passed', passed)
local since = oldest and redis.call('HGET', messages, oldest)
if since then
  redis.call('ZADD', blocked, string.match(since, '^%d+'), need_id)
end
return false
