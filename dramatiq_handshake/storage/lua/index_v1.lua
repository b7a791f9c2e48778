-- Read the index of live workers. Writes nothing.
--
-- KEYS
--   1  live    ZSET  "<token>:<instance>" -> end of its lease (server time, ms)
--   2  placed  HASH  "<token>:<instance>" -> "<class id, empty unless up>\n<broker>"
-- ARGV
--   1 now in ms, or "" for the server's own   2 ttl in ms   3 how many to look up at once
-- Returns one JSON text, [["<token>:<instance>", remaining ms, its value in placed], ...]: a reply of
-- thousands of elements costs the reader more than the server.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local chunk = tonumber(ARGV[3])
local leases = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, now + tonumber(ARGV[2]), 'WITHSCORES')
if #leases == 0 then
  return '[]'
end
local index = {}
for first = 1, #leases, 2 * chunk do
  local members = {}
  for i = first, math.min(first + 2 * chunk - 1, #leases), 2 do
    members[#members + 1] = leases[i]
  end
  for i, value in ipairs(redis.call('HMGET', KEYS[2], unpack(members))) do
    local lease = tonumber(leases[first + 2 * i - 1])
    index[#index + 1] = { members[i], lease - now, value or '\n' }
  end
end
return cjson.encode(index)
