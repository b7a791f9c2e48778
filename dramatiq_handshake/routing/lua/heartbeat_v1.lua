-- Note a sign of life that somebody has of a worker.
--
-- ARGV
--   3 worker   4 when it was, in ms, or "" for now
-- Returns nothing, or the ids of all workers where this one is unknown.

local worker = ARGV[3]
if not number_of(worker) then
  return names()
end
beat(worker, ARGV[4])
keep()
return false
