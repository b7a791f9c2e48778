-- A worker beats, and states what it runs. A registration that was lost or forgotten is entered again.
--
-- ARGV
--   3 worker   4 its boot   5 task types, each with a \n   6 when it was, in ms, or "" for now
--   7 for how long its slots last without renewal, in ms   8 how many jobs run   9.. these; then jobs that ended without a word
-- Returns 1, or nothing where another registration took over the id.

local worker, current = ARGV[3], boot_of(ARGV[3])
if current and current ~= ARGV[4] then
  return false
end
if not current then
  enter(worker, ARGV[5], ARGV[4])
end
beat(worker, ARGV[6])
state(worker, ARGV[4], tonumber(ARGV[7]), 9, tonumber(ARGV[8]))
keep()
return 1
