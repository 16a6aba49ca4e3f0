-- raise: writes a fencing token back to the counters, only while the owner still has the grant that was read.
--
-- KEYS  for each name: its hash, its token counter
-- ARGV  1 owner, 2 token, 3 time to live of the counter in ms, 4 the counter that the grant returned
--
-- Replies with 1 when the owner holds every name by that grant and every counter stands at the token now, else with 0, nothing
-- written. A counter that has moved on, though the owner is there, belongs to another grant: a request of the owner's that came
-- twice was granted again after somebody else had been there. Of a raise that comes twice the second finds the token.

for i = 1, #KEYS, 2 do
  if redis.call('HEXISTS', KEYS[i], ARGV[1]) == 0 then
    return 0
  end
  local counter = redis.call('GET', KEYS[i + 1])
  if counter ~= ARGV[4] and counter ~= ARGV[2] then
    return 0
  end
end
for i = 2, #KEYS, 2 do
  if redis.call('GET', KEYS[i]) ~= ARGV[2] then
    redis.call('SET', KEYS[i], ARGV[2], 'PX', ARGV[3])
  end
end
return 1
