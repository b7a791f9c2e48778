-- The job is about to be sent: its reservation becomes the dispatcher's slot.
--
-- ARGV
--   3 worker   4 job   5 for how long without renewal, in ms   6 the limit within which a slot was reserved, 0 for none
-- Returns the outcome first: "started", the boot of the worker; "duplicate", the worker that has the job; "lapsed"; "unknown", the ids of all workers.

local worker, job, limit = ARGV[3], ARGV[4], tonumber(ARGV[6])
local number = number_of(worker)
if not number then
  return { 'unknown', names() }
end
local slot = live_slot(job)
if slot and slot.holder ~= 'reserved' then
  return { 'duplicate', slot.worker }
end
if slot and slot.worker == worker then
  limit = slot.limit
elseif limit > 0 and active_of(worker) >= limit then
  return { 'lapsed' }
end
give(job, worker, number, 'dispatcher', limit, tonumber(ARGV[5]))
keep()
return { 'started', boot_of(worker) }
