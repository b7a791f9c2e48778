-- A worker leaves, unless the id is another's by now. Its slots count no more; they go when they lapse.
--
-- ARGV
--   3 worker   4 its boot

if boot_of(ARGV[3]) == ARGV[4] then
  remove(ARGV[3])
end
return false
