-- Reject a message that came through a lane: it belongs among its base queue's dead letters, where
-- dashboards and retention look for it.
--
-- Keys, all Dramatiq's own:
--   KEYS[1]  $namespace:__acks__.$broker_id.$lane  what this process has fetched from the lane
--   KEYS[2]  $namespace:$lane.msgs                 its message bodies
--   KEYS[3]  $namespace:$base.XQ                   the base's dead letters by time
--   KEYS[4]  $namespace:$base.XQ.msgs              their bodies
-- Arguments: the message's redis id, and the time in ms that Dramatiq itself would write.
-- Answers 1 if it was dead-lettered, 0 if it is no longer ours or its body is gone.

if redis.call('SREM', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local body = redis.call('HGET', KEYS[2], ARGV[1])
if not body then
  return 0
end
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[4], ARGV[1], body)
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
