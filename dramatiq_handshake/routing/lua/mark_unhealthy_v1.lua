-- Keep jobs from a worker until its next heartbeat.
--
-- ARGV
--   3 worker   4 why
-- Returns nothing, or the ids of all workers where this one is unknown.

local worker = ARGV[3]
if not number_of(worker) then
  return names()
end
redis.call('HSET', unhealthy, worker, ARGV[4])
keep()
return false
