-- A worker gives the slot of a job back.
--
-- ARGV
--   3 worker   4 its boot   5 job   6 for how long a renewal by its dispatcher may still be on its way, in ms

finish(ARGV[5], ARGV[3], ARGV[4], tonumber(ARGV[6]))
keep()
return false
