-- Register a worker as the last, in place of a silent one of the same id, and forget who was silent for too long.
--
-- ARGV
--   3 worker   4 task types, each with a \n   5 how long it may be silent, in ms   6 when the silent are forgotten, in ms
--   7 boot: an attempt made again because its answer was lost has the same, and does not stand in its own way
-- Returns 1, or nothing where the id is taken.

local worker, timeout, forget_after = ARGV[3], tonumber(ARGV[5]), tonumber(ARGV[6])

local boot = boot_of(worker)
if boot then
  if boot == ARGV[7] then
    return 1
  end
  if now - tonumber(redis.call('HGET', beats, worker) or 0) <= timeout then
    return false
  end
  remove(worker)
end
local known = redis.call('HGETALL', beats)
for i = 1, #known, 2 do
  if now - tonumber(known[i + 1]) > forget_after then
    remove(known[i])
  end
end
enter(worker, ARGV[4], ARGV[7])
keep()
return 1
