-- Read what changed on some tokens. Writes nothing.
--
-- KEYS
--   1  lanes epoch  STRING  opaque; new whenever a lane is opened, changed or retired
--   then four for each token:
--      epoch        STRING  opaque; new whenever a class appears on the token or is withdrawn
--      classes      ZSET    class id -> the longest lease of its workers (server time, ms)
--      served       STRING  there for as long as the token counts as served lately
--      lanes        HASH    lane name -> "<registered, ms>\n<lane as JSON>"
-- ARGV
--   1 now in ms, or "" for the server's own   2 ttl in ms   3 the known lanes epoch, or ""
--   then two for each token: its known epoch or "", the known number of live classes
-- Returns { lanes epoch or "", lanes or false, { { position, epoch or "", 1 if served lately,
--   class id, remaining ms, class id, remaining ms, ... }, ... } } with the changed tokens only.
--
-- A class that lapses writes nothing: under one epoch the live classes only ever become fewer, so
-- equal epoch and equal number mean the same classes.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local from, to = '(' .. now, now + tonumber(ARGV[2])

local lanes_epoch = redis.call('GET', KEYS[1]) or ''
local lanes = false
if lanes_epoch == '' or lanes_epoch ~= ARGV[3] then
  lanes = {}
end

local changed = {}
for i = 1, (#KEYS - 1) / 4 do
  local first = 2 + (i - 1) * 4
  local epoch = redis.call('GET', KEYS[first]) or ''
  local classes = KEYS[first + 1]
  if
    epoch == ''
    or epoch ~= ARGV[2 + i * 2]
    or redis.call('ZCOUNT', classes, from, to) ~= tonumber(ARGV[3 + i * 2])
  then
    local token = { i, epoch, redis.call('EXISTS', KEYS[first + 2]) }
    local leases = redis.call('ZRANGEBYSCORE', classes, from, to, 'WITHSCORES')
    for j = 1, #leases, 2 do
      token[#token + 1] = leases[j]
      token[#token + 1] = tonumber(leases[j + 1]) - now
    end
    changed[#changed + 1] = token
  end
  if lanes then
    for _, lane in ipairs(redis.call('HVALS', KEYS[first + 3])) do
      lanes[#lanes + 1] = lane
    end
  end
end
return { lanes_epoch, lanes, changed }
