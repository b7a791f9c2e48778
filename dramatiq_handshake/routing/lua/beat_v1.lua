-- A worker beats, and states what it runs. A registration that was lost or forgotten is entered again.
--
-- ARGV
--   3 worker   4 its number   5 task types, each with a \n   6 when it was, in ms, or "" for now
--   7 for how long its slots last without renewal, in ms   8 how many jobs run   9.. these; then jobs that ended without a word
-- Returns its number, or nothing where another registration took over the id.

local worker, number = ARGV[3], number_of(ARGV[3])
if number and number ~= ARGV[4] then
  return false
end
if not number then
  number = enter(worker, ARGV[5])
end
beat(worker, ARGV[6])
state(worker, number, tonumber(ARGV[7]), 9, tonumber(ARGV[8]))
keep()
return number
