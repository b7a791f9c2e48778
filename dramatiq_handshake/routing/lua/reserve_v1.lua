-- Choose a worker for a job and give the job a slot there.
--
-- ARGV
--   3 job   4 task type   5 how long the slot waits, in ms   6 how long a worker may be silent, in ms
--   7 order: least-active, in-turn or sticky   8 most jobs at once on a worker, 0 for any number
--   9 the key that sticks   10 the stride of weight 1   11.. worker, stride: for the workers with another weight; stride 0 is weight 0
-- Returns the outcome first:
--   "chosen", worker   "duplicate", the worker that has the job
--   "refused", the time, then a row for each worker
-- `policy.py` decides the same for a directory in memory.

local job, wanted = ARGV[3], '\n' .. ARGV[4] .. '\n'
local reservation, timeout, order, limit = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local stride_of = {}
for i = 11, #ARGV, 2 do
  stride_of[ARGV[i]] = tonumber(ARGV[i + 1])
end

local function fit(worker, entry, last, reason, slots)
  return string.find(entry, wanted, 1, true)
    and not reason
    and now - last <= timeout
    and (limit == 0 or slots < limit)
    and stride_of[worker] ~= 0
end

-- How each order looks at the workers, least active and then first registered first: returns whom it chooses.
local choose = {}

choose['least-active'] = function()
  local chosen
  each_worker(function(worker, entry, last, reason, slots)
    if fit(worker, entry, last, reason, slots) then
      chosen = worker
      return true
    end
    -- Whoever comes after has no fewer.
    return limit > 0 and slots >= limit
  end)
  return chosen
end

choose['in-turn'] = function()
  local reached_of, reached = {}, redis.call('HGETALL', turns)
  for i = 1, #reached, 2 do
    reached_of[reached[i]] = tonumber(reached[i + 1])
  end
  local chosen, nearest, chosen_number
  each_worker(function(worker, entry, last, reason, slots)
    if fit(worker, entry, last, reason, slots) then
      local number = tonumber(string.match(entry, '^%d+'))
      local turn = math.max(reached_of[worker] or 0, reached_of[''] or 0)
      if not chosen or turn < nearest or (turn == nearest and number < chosen_number) then
        chosen, nearest, chosen_number = worker, turn, number
      end
    end
  end)
  if chosen then
    local stride = stride_of[chosen] or tonumber(ARGV[10])
    redis.call('HSET', turns, '', written(nearest), chosen, written(nearest + stride))
  end
  return chosen
end

choose['sticky'] = function()
  local chosen, closest
  each_worker(function(worker, entry, last, reason, slots)
    if fit(worker, entry, last, reason, slots) then
      local affinity = redis.sha1hex(ARGV[9] .. '\0' .. worker)
      if not chosen or affinity > closest then
        chosen, closest = worker, affinity
      end
    end
  end)
  return chosen
end

local chosen
local former = live_slot(job)
if former then
  if former.holder ~= 'reserved' then
    return { 'duplicate', former.worker }
  end
  take_back(job, former)
  local worker = former.worker
  local last = tonumber(redis.call('HGET', beats, worker) or 0)
  local reason = redis.call('HGET', unhealthy, worker)
  if fit(worker, redis.call('HGET', workers, worker), last, reason, active_of(worker)) then
    chosen = worker
  end
end
chosen = chosen or choose[order]()
if not chosen then
  return describe({ 'refused', written(now) })
end
give(job, chosen, number_of(chosen), 'reserved', limit, reservation)
keep()
return { 'chosen', chosen }
