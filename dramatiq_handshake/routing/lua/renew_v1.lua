-- A dispatcher lives, and has these jobs under way. What was lost of them is given again.
--
-- ARGV
--   3 for how long without renewal, in ms   4 how many jobs   5.. job, worker of each; then jobs that ended without a word
-- Returns the jobs that are not the dispatcher's any more: their worker holds them, or has left.

local lease, count = tonumber(ARGV[3]), tonumber(ARGV[4])
local others = {}
for i = 5, 4 + 2 * count, 2 do
  local job, worker = ARGV[i], ARGV[i + 1]
  local number, slot = number_of(worker), live_slot(job)
  if number and (not slot or slot.holder == 'dispatcher' and slot.worker == worker) then
    give(job, worker, number, 'dispatcher', slot and slot.limit or 0, lease)
  else
    others[#others + 1] = job
  end
end
for i = 5 + 2 * count, #ARGV do
  local slot = slot_of(ARGV[i])
  if slot and slot.holder ~= 'worker' then
    take_back(ARGV[i], slot)
  end
end
keep()
return others
