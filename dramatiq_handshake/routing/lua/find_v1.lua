-- Where a job has its slot.
--
-- ARGV
--   3 job
-- Returns the worker, or nothing.

local slot = live_slot(ARGV[3])
return slot and slot.worker
