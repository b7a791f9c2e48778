-- The job has ended for its dispatcher. A slot that the worker holds is the worker's to give back.
--
-- ARGV
--   3 job

local slot = slot_of(ARGV[3])
if slot and slot.holder ~= 'worker' then
  take_back(ARGV[3], slot)
end
return false
