-- Place an instance on the tokens it holds, and take it off those it has left.
--
-- KEYS
--   1  live        ZSET    "<token>:<instance>" -> end of its lease (server time, ms)
--   2  placed      HASH    "<token>:<instance>" -> "<class id, empty unless up>\n<broker>"
--   3  claims      ZSET    Dramatiq broker id -> end of its claim
--   4  instance    HASH    client, skew, broker, broker_id, tokens: what outlives the lease
--   then four for each token, held ones first:
--      epoch       STRING  opaque; new whenever a class appears on the token or is withdrawn
--      classes     ZSET    class id -> the longest lease of its workers
--      members     ZSET    instance (only while it is up) -> end of its lease
--      served      STRING  there for as long as the token counts as served lately
-- ARGV
--   1 now in ms, or "" for the server's own   2 ttl in ms   3 how long marks are remembered, in ms
--   4 most lapsed entries to prune at once    5 instance    6 class id, "" unless up
--   7 broker   8 broker id or ""   9 the caller's clock in ms, "" when it only leaves   10 CLIENT ID or ""   11 a new epoch
--   12 how many of the tokens are held, the others are left   13.. tokens
-- Returns the server's time.
--
-- Sets are pruned where they may have grown: the index at every beat, the others when somebody joins.
-- A lease counts while now < end <= now + ttl: an end further away was written before the clock was
-- set back, and nobody can tell whether its worker still lives.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local ttl, memory, chunk = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local instance, class, broker, broker_id = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local beat_at, epoch, held = tonumber(ARGV[9]), ARGV[11], tonumber(ARGV[12])
local live, placed, claims, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local expiry = now + ttl

local function counts(lease)
  return lease and now < lease and lease <= expiry
end

-- The longest lease that other workers of the class hold on the token, or nil.
local function longest_lease(token, members, of_class)
  local offset, mark = 0, of_class .. '\n'
  while true do
    local others = redis.call('ZREVRANGEBYSCORE', members, expiry, '(' .. now, 'LIMIT', offset, chunk)
    if #others == 0 then
      return nil
    end
    local places = {}
    for i, other in ipairs(others) do
      places[i] = token .. ':' .. other
    end
    for i, value in ipairs(redis.call('HMGET', placed, unpack(places))) do
      if value and string.sub(value, 1, #mark) == mark then
        return tonumber(redis.call('ZSCORE', members, others[i]))
      end
    end
    offset = offset + chunk
  end
end

-- Take the instance out of a class. Returns whether the class is thereby withdrawn.
local function leave(token, classes, members, old_class, lease)
  redis.call('ZREM', members, instance)
  local longest = tonumber(redis.call('ZSCORE', classes, old_class))
  if not counts(longest) or (lease and lease < longest) then
    return false
  end
  local rest = longest_lease(token, members, old_class)
  if rest then
    redis.call('ZADD', classes, rest, old_class)
    return false
  end
  redis.call('ZREM', classes, old_class)
  return true
end

-- Forget what has lapsed, a chunk at a time.
local function prune(set, companion)
  local lapsed = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, chunk)
  if #lapsed > 0 then
    redis.call('ZREM', set, unpack(lapsed))
    if companion then
      redis.call('HDEL', companion, unpack(lapsed))
    end
  end
end

local tokens, places, leases = {}, {}, {}
for i = 13, #ARGV do
  local place = ARGV[i] .. ':' .. instance
  tokens[#tokens + 1] = ARGV[i]
  places[#places + 1] = place
  if #tokens <= held then
    leases[#leases + 1] = expiry
    leases[#leases + 1] = place
  end
end
local former, former_leases = {}, {}
if #places > 0 then
  former = redis.call('HMGET', placed, unpack(places))
  former_leases = redis.call('ZMSCORE', live, unpack(places))
end
if #leases > 0 then
  redis.call('ZADD', live, unpack(leases))
end
local present = class .. '\n' .. broker
local joins = false

for i, token in ipairs(tokens) do
  local first = 5 + (i - 1) * 4
  local epoch_key, classes, members, served = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  local stays = i <= held
  local old_class = former[i] and string.match(former[i], '^[^\n]*') or ''
  local old_lease = tonumber(former_leases[i])
  local changed = false
  if old_class ~= '' and not (stays and old_class == class) then
    changed = leave(token, classes, members, old_class, old_lease)
  end
  if stays then
    if former[i] ~= present then
      joins = true
      redis.call('HSET', placed, places[i], present)
      prune(members)
    end
    if old_lease and old_lease > expiry then
      -- The clock was set back since our last beat: what is stamped later than now can't be trusted.
      for _, set in ipairs({ live, classes, members }) do
        redis.call('ZREMRANGEBYSCORE', set, '(' .. expiry, '+inf')
      end
    end
    redis.call('SET', served, 1, 'PX', memory)
    if class ~= '' then
      changed = not counts(tonumber(redis.call('ZSCORE', classes, class))) or changed
      redis.call('ZADD', classes, expiry, class)
      redis.call('ZADD', members, expiry, instance)
      redis.call('PEXPIRE', classes, ttl)
      redis.call('PEXPIRE', members, ttl)
    end
  else
    redis.call('ZREM', live, places[i])
    redis.call('HDEL', placed, places[i])
  end
  if changed then
    redis.call('ZREMRANGEBYSCORE', classes, '-inf', now)
    redis.call('SET', epoch_key, epoch, 'PX', memory)
  elseif stays then
    redis.call('PEXPIRE', epoch_key, memory)
  end
end

if beat_at then
  redis.call('HSET', record, 'client', ARGV[10], 'skew', beat_at - now, 'broker', broker,
    'broker_id', broker_id, 'tokens', table.concat(tokens, '\n', 1, held))
  redis.call('PEXPIRE', record, memory)
  redis.call('PEXPIRE', live, ttl)
  redis.call('PEXPIRE', placed, ttl)
  prune(live, placed)
  if broker_id ~= '' then
    redis.call('ZADD', claims, now + memory, broker_id)
    redis.call('PEXPIRE', claims, memory)
    if joins then
      redis.call('ZREMRANGEBYSCORE', claims, '-inf', now)
    end
  end
else
  local left, kept = {}, {}
  for _, token in ipairs(tokens) do
    left[token] = true
  end
  for token in string.gmatch(redis.call('HGET', record, 'tokens') or '', '[^\n]+') do
    if not left[token] then
      kept[#kept + 1] = token
    end
  end
  if #kept == 0 then
    redis.call('DEL', record)
  else
    redis.call('HSET', record, 'tokens', table.concat(kept, '\n'))
  end
end
return now
