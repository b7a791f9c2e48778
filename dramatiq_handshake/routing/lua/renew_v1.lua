-- A dispatcher lives, and has these jobs under way. What was lost of them is given again.
--
-- ARGV
--   3 for how long without renewal, in ms   4 how many jobs   5.. job, worker, boot of each; then jobs that ended without a word
-- Returns the jobs that are not the dispatcher's any more: their worker holds or has finished them, or has left.

local lease, count = tonumber(ARGV[3]), tonumber(ARGV[4])
local others = {}
for i = 5, 4 + 3 * count, 3 do
  local job, worker = ARGV[i], ARGV[i + 1]
  local slot = slot_of(job)
  local here = boot_of(worker) == ARGV[i + 2]
  local ours = not slot or slot.holder == 'dispatcher' and slot.worker == worker
  if here and ours then
    give(job, worker, number_of(worker), 'dispatcher', slot and slot.limit or 0, lease)
  else
    others[#others + 1] = job
  end
end
for i = 5 + 3 * count, #ARGV do
  local slot = slot_of(ARGV[i])
  if slot and slot.holder ~= 'worker' then
    take_back(ARGV[i], slot)
  end
end
keep()
return others
