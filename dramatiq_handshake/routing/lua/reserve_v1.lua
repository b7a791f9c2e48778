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

local former = live_slot(job)
if former then
  if former.holder ~= 'reserved' then
    return { 'duplicate', former.worker }
  end
  take_back(job, former)
end

local beat_of, reason_of, active_of = read(beats), read(unhealthy), read(active)
local reached_of = order == 'in-turn' and read(turns) or {}
local turn = tonumber(reached_of[''] or 0)

local function fit(worker, entry)
  return string.find(entry, wanted, 1, true)
    and not reason_of[worker]
    and now - tonumber(beat_of[worker] or 0) <= timeout
    and (limit == 0 or tonumber(active_of[worker] or 0) < limit)
    and stride_of[worker] ~= 0
end

-- Lower comes first.
local rank = {
  ['least-active'] = function(worker)
    return tonumber(active_of[worker] or 0)
  end,
  ['in-turn'] = function(worker)
    return math.max(tonumber(reached_of[worker] or 0), turn)
  end,
}

local chosen, chosen_number, best
local entries = redis.call('HGETALL', workers)
for i = 1, #entries, 2 do
  local worker, entry = entries[i], entries[i + 1]
  if worker ~= '' and fit(worker, entry) then
    local number = tonumber(string.match(entry, '^%d+'))
    if former and former.worker == worker then
      chosen, chosen_number, best = worker, number, 'stays'
      break
    end
    local first
    if order == 'sticky' then
      local affinity = redis.sha1hex(ARGV[9] .. '\0' .. worker)
      first = not chosen or affinity > best
      if first then
        best = affinity
      end
    else
      local mine = rank[order](worker)
      first = not chosen or mine < best or (mine == best and number < chosen_number)
      if first then
        best = mine
      end
    end
    if first then
      chosen, chosen_number = worker, number
    end
  end
end

if chosen then
  if order == 'in-turn' and best ~= 'stays' then
    local stride = stride_of[chosen] or tonumber(ARGV[10])
    redis.call('HSET', turns, '', written(best), chosen, written(best + stride))
  end
  give(job, chosen, written(chosen_number), 'reserved', limit, reservation)
  keep()
  return { 'chosen', chosen }
end

return describe({ 'refused', written(now) }, beat_of, reason_of, active_of)
