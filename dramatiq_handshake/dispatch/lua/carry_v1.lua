-- Move a message that this process has fetched but can't run to the lane of those who can.
--
-- Keys, all Dramatiq's own:
--   KEYS[1]  $namespace:__acks__.$broker_id.$source  what this process has fetched from the source queue
--   KEYS[2]  $namespace:$source.msgs                 its message bodies
--   KEYS[3]  $namespace:$lane                        the lane's list of ids
--   KEYS[4]  $namespace:$lane.msgs                   its message bodies
-- Arguments: the message's redis id, and its body.
-- Answers 1 if it was moved, 0 if it is no longer ours: somebody reclaimed it, and it is theirs to place.

if redis.call('SREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
