-- List messages of one need as blocked.
--
-- KEYS
--   1  blocked   ZSET  need id -> when its oldest listed message was blocked (server time, ms)
--   2  messages  HASH  message id -> "<blocked since, ms>\n<message as JSON>", of all needs
--   3  need      HASH  spec (JSON), first (ms), last (sequence), beyond, passed
--   4  listed    ZSET  message id -> sequence: its time, made unique, so that a page can say "after"
-- ARGV
--   1 now in ms, or "" for the server's own   2 how many are listed at most   3 need id
--   4 the need as JSON   then two for each message: its id, the message as JSON
-- Returns how many messages of the need are blocked.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local listed_max, need_id = tonumber(ARGV[2]), ARGV[3]
local blocked, messages, need, listed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local known = redis.call('HMGET', need, 'first', 'last', 'beyond')
local first, last, beyond = tonumber(known[1]), tonumber(known[2]) or 0, tonumber(known[3]) or 0
local count = redis.call('ZCARD', listed)
local stamp = string.format('%.0f', now)
for i = 5, #ARGV, 2 do
  if redis.call('HEXISTS', messages, ARGV[i]) == 0 then
    if count + beyond == 0 then
      redis.call('ZADD', blocked, now, need_id)
      first = first or now
    end
    if count < listed_max then
      last = math.max(last + 1, now)
      redis.call('ZADD', listed, last, ARGV[i])
      redis.call('HSET', messages, ARGV[i], stamp .. '\n' .. ARGV[i + 1])
      count = count + 1
    else
      beyond = beyond + 1
    end
  end
end
if first then
  redis.call('HSET', need, 'spec', ARGV[4], 'first', first, 'last', last, 'beyond', beyond)
end
return count + beyond
