-- raise: writes a fencing token back to the counters, only while the owner still holds every name.
--
-- KEYS  for each name: its hash, its token counter
-- ARGV  1 owner, 2 token, 3 time to live of the counter in ms
--
-- Replies with 1 when the owner holds every name and no counter is below the token now, else with 0, nothing written.

for i = 1, #KEYS, 2 do
  if redis.call('HEXISTS', KEYS[i], ARGV[1]) == 0 then
    return 0
  end
end
for i = 2, #KEYS, 2 do
  if (tonumber(redis.call('GET', KEYS[i]) or '0') or 0) < tonumber(ARGV[2]) then
    redis.call('SET', KEYS[i], ARGV[2], 'PX', ARGV[3])
  end
end
return 1
