-- A worker gives the slot of a job back.
--
-- ARGV
--   3 worker   4 its number   5 job

local slot = slot_of(ARGV[5])
if slot and slot.worker == ARGV[3] and slot.number == ARGV[4] then
  take_back(ARGV[5], slot)
end
return false
