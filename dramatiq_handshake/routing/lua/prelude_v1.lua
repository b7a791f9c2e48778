-- What every script of the worker directory begins with: its keys, the time, and slots.
--
-- KEYS
--   1  workers    HASH    worker -> "<number>:<registered at, ms>:<boot>\n<task types, each with a \n>"; "" -> the last number
--   2  beats      HASH    worker -> its last heartbeat (ms)
--   3  unhealthy  HASH    worker -> why it was marked unhealthy; only while it is
--   4  load       ZSET    worker -> how many slots its jobs hold, times 2^32, plus its number: the order of the least active
--   5  jobs       HASH    job -> its slot: JSON [worker, number, holder, limit]; holder: reserved, dispatcher, worker, or
--                         finished: no slot any more, but its dispatcher, who has not heard of it yet, must not renew it
--   6  lapses     ZSET    job -> when its slot lapses (ms)
--   7  turns      HASH    worker -> how far its turns took it; "" -> how far the last one to have its turn was
-- ARGV
--   1 now in ms, or "" for the server's own   2 how long the keys outlive their last change, in ms
--   3.. as each script says
--
-- A registration has a boot, by which whoever knows it tells it from a later one of the same id, and a number, new whenever it
-- is entered: a slot of another number was lost or dropped with its worker. `load` changes only together with `jobs`, so that
-- it always equals a recount.

local workers, beats, unhealthy, load = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local jobs, lapses, turns = KEYS[5], KEYS[6], KEYS[7]

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A slot in `load`. Numbers of registrations lie below it, and 2^21 slots below what a score can count exactly.
local UNIT = 4294967296

-- Numbers of milliseconds are too long for Lua's own way to write them.
local function written(number)
  return string.format('%.0f', number)
end

local function number_of(worker)
  local entry = worker ~= '' and redis.call('HGET', workers, worker)
  return entry and string.match(entry, '^%d+')
end

local function boot_of(worker)
  local entry = worker ~= '' and redis.call('HGET', workers, worker)
  return entry and string.match(entry, '^%d+:%d+:(%w*)\n')
end

local function active_of(worker)
  return math.floor(tonumber(redis.call('ZSCORE', load, worker) or 0) / UNIT)
end

local function slot_of(job)
  local text = redis.call('HGET', jobs, job)
  if not text then
    return nil
  end
  local slot = cjson.decode(text)
  return { worker = slot[1], number = slot[2], holder = slot[3], limit = slot[4] }
end

local function take_back(job, slot)
  redis.call('HDEL', jobs, job)
  redis.call('ZREM', lapses, job)
  if slot.holder ~= 'finished' and number_of(slot.worker) == slot.number then
    redis.call('ZINCRBY', load, -UNIT, slot.worker)
  end
end

-- The job's slot while it counts, or nil.
local function live_slot(job)
  local slot = slot_of(job)
  if not slot or slot.holder == 'finished' then
    return nil
  end
  if number_of(slot.worker) ~= slot.number or tonumber(redis.call('ZSCORE', lapses, job) or 0) <= now then
    take_back(job, slot)
    return nil
  end
  return slot
end

-- Give the job a slot, in place of the one that it may have.
local function give(job, worker, number, holder, limit, lease)
  local former = slot_of(job)
  if former then
    take_back(job, former)
  end
  redis.call('HSET', jobs, job, cjson.encode({ worker, number, holder, limit }))
  redis.call('ZADD', lapses, written(now + lease), job)
  redis.call('ZINCRBY', load, UNIT, worker)
end

local function enter(worker, task_types, boot)
  local number = written(redis.call('HINCRBY', workers, '', 1))
  redis.call('HSET', workers, worker, number .. ':' .. written(now) .. ':' .. boot .. '\n' .. task_types)
  redis.call('HSET', beats, worker, written(now))
  redis.call('ZADD', load, number, worker)
  return number
end

local function remove(worker)
  for _, key in ipairs({ workers, beats, unhealthy, turns }) do
    redis.call('HDEL', key, worker)
  end
  redis.call('ZREM', load, worker)
end

-- A heartbeat that is older than the last, or ahead of the clock, moves nothing back or ahead.
local function beat(worker, timestamp)
  local at = math.min(tonumber(timestamp) or now, now)
  at = math.max(at, tonumber(redis.call('HGET', beats, worker) or 0))
  redis.call('HSET', beats, worker, written(at))
  redis.call('HDEL', unhealthy, worker)
end

-- A worker has finished a job.
local function finish(job, worker, boot, lease)
  local slot = slot_of(job)
  if not slot or slot.worker ~= worker or slot.number ~= number_of(worker) or boot_of(worker) ~= boot then
    return
  end
  take_back(job, slot)
  redis.call('HSET', jobs, job, cjson.encode({ worker, slot.number, 'finished', 0 }))
  redis.call('ZADD', lapses, written(now + lease), job)
end

-- What a worker says of itself: these run on it, those have ended.
local function state(worker, boot, lease, from, running)
  for i = from, from + running - 1 do
    give(ARGV[i], worker, number_of(worker), 'worker', 0, lease)
  end
  for i = from + running, #ARGV do
    finish(ARGV[i], worker, boot, lease)
  end
end

-- What is known of every worker, least active first: calls `see` with id, entry, last heartbeat, why it is unhealthy
-- and number of slots, until that returns true. Reads no more than it shows.
local function each_worker(see)
  local from, chunk = 0, 64
  while true do
    local ranked = redis.call('ZRANGE', load, from, from + chunk - 1, 'WITHSCORES')
    if #ranked == 0 then
      return
    end
    local ids = {}
    for i = 1, #ranked, 2 do
      ids[#ids + 1] = ranked[i]
    end
    local entries = redis.call('HMGET', workers, unpack(ids))
    local last = redis.call('HMGET', beats, unpack(ids))
    local reasons = redis.call('HMGET', unhealthy, unpack(ids))
    for i, worker in ipairs(ids) do
      local slots = math.floor(tonumber(ranked[2 * i]) / UNIT)
      if see(worker, entries[i], tonumber(last[i] or 0), reasons[i], slots) then
        return
      end
    end
    from, chunk = from + chunk, 512
  end
end

-- Add to a reply a row for each worker: id, entry, last heartbeat, slots, "" or "!" and why it is unhealthy.
local function describe(reply)
  each_worker(function(worker, entry, last, reason, slots)
    reply[#reply + 1] = { worker, entry, written(last), written(slots), reason and '!' .. reason or '' }
  end)
  return reply
end

-- The ids of all workers in the order of registration.
local function names()
  local found, numbers = {}, {}
  each_worker(function(worker, entry)
    found[#found + 1] = worker
    numbers[worker] = tonumber(string.match(entry, '^%d+'))
  end)
  table.sort(found, function(one, other)
    return numbers[one] < numbers[other]
  end)
  return found
end

local function keep()
  for _, key in ipairs({ workers, beats, unhealthy, load, jobs, lapses, turns }) do
    redis.call('PEXPIRE', key, ARGV[2])
  end
end

-- Take lapsed slots back; no more at once than a call may cost. One left over counts a little longer.
for _, job in ipairs(redis.call('ZRANGEBYSCORE', lapses, '-inf', now, 'LIMIT', 0, 500)) do
  local slot = slot_of(job)
  if slot then
    take_back(job, slot)
  else
    redis.call('ZREM', lapses, job)
  end
end

