-- force: deletes a lock for an operator, whoever holds it.
--
-- KEYS  1 the name's hash, then the tombstones of the owners to bar from new grants (a repair, a
--       late request)
-- ARGV  1 the name's channel, 2 the tombstones' time to live in ms
--
-- Replies with 1 if a lock was deleted, and with 0 if there was no key. A key that is no lock is an
-- error, and stays.

local ttl = call('PTTL', KEYS[1])
if ttl ~= -2 then
  local owner, wrong = lockAt(KEYS[1])
  if not owner then
    return wrong
  end
end
for i = 2, #KEYS do
  redis.pcall('SET', KEYS[i], '1', 'PX', ARGV[2])
end
if ttl == -2 then
  return 0
end
call('DEL', KEYS[1])
call('PUBLISH', ARGV[1], '0')
return 1
