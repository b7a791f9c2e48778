-- A worker takes over the slot of a job that has arrived, and states what else it runs.
--
-- ARGV
--   3 worker   4 its boot   5 job   6 for how long its slots last without renewal, in ms
--   7 how many jobs run   8.. these; then jobs that ended without a word
-- Returns "begun", "lapsed" (no slot here, or none that the limit leaves: it must not run), or "taken" (the id is another's).

local worker, boot, job, lease = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local current = boot_of(worker)
if current ~= boot then
  return current and 'taken' or 'lapsed'
end
state(worker, boot, lease, 8, tonumber(ARGV[7]))
local slot, outcome = live_slot(job), 'lapsed'
if slot and slot.worker == worker then
  if slot.limit > 0 and active_of(worker) > slot.limit then
    take_back(job, slot)
  else
    give(job, worker, slot.number, 'worker', slot.limit, lease)
    outcome = 'begun'
  end
end
keep()
return outcome
