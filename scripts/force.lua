-- force: takes a lock away from whoever has it, on an operator's word.
--
-- KEYS  1 the name's hash, then the tombstones of the owners that must not come back (by a repair, or late)
-- ARGV  1 the name's channel, 2 the tombstones' time to live in ms
--
-- Replies with 1 when there was something to delete, else with 0. A key that is not a hash is an error, not deleted.

local held = redis.call('HLEN', KEYS[1]) > 0
for i = 2, #KEYS do
  redis.pcall('SET', KEYS[i], '1', 'PX', ARGV[2])
end
if not held then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[1], '0')
return 1
