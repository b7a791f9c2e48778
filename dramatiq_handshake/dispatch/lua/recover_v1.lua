-- Put back what this process fetched from a queue and no longer remembers: a consumer that is rebuilt
-- after an error starts with an empty cache, and Dramatiq itself would leave these ids to the day when
-- the process dies.
--
-- Keys, all Dramatiq's own:
--   KEYS[1]  $namespace:__acks__.$broker_id.$queue  what this process has fetched
--   KEYS[2]  $namespace:$queue                      the queue's list of ids
--   KEYS[3]  $namespace:$queue.msgs                 its message bodies
-- Arguments: the redis ids that this process still holds in hand.
-- Answers how many ids went back.

local in_hand = {}
for i = 1, #ARGV do
  in_hand[ARGV[i]] = true
end
local recovered = 0
for _, id in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  if not in_hand[id] then
    redis.call('SREM', KEYS[1], id)
    if redis.call('HEXISTS', KEYS[3], id) == 1 then
      redis.call('RPUSH', KEYS[2], id)
      recovered = recovered + 1
    end
  end
end
return recovered
