-- raise: writes a fencing token back to the counters, while the owner still has the grant that the
-- client read.
--
-- KEYS  for each name: its hash, its token counter
-- ARGV  1 owner, 2 token, 3 the counter that the grant returned
--
-- Replies with 1 when the owner holds every name by that grant, and every counter now carries the
-- token. Else it replies with 0, and has written nothing. A counter that has moved on while the
-- owner is there belongs to another grant: a resent request of the owner was granted again after
-- another owner. A raise that arrives twice finds the token.

for i = 1, #KEYS, 2 do
  if redis.call('HEXISTS', KEYS[i], ARGV[1]) == 0 then
    return 0
  end
  local counter = redis.call('GET', KEYS[i + 1])
  if counter ~= ARGV[3] and counter ~= ARGV[2] then
    return 0
  end
end
for i = 2, #KEYS, 2 do
  if redis.call('GET', KEYS[i]) ~= ARGV[2] then
    redis.call('SET', KEYS[i], ARGV[2], 'PX', counterTTL)
  end
end
return 1
