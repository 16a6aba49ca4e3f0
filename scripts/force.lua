-- force: takes a lock away from whoever has it, on an operator's word.
--
-- KEYS  1 the name's hash, then the tombstones of the owners that must not come back (by a repair, or late)
-- ARGV  1 the name's channel, 2 the tombstones' time to live in ms
--
-- Replies with 1 when there was a lock to delete, with 0 when there was no key. A key that is no lock is an error, not deleted.

local ttl = call('PTTL', KEYS[1])
if ttl ~= -2 then
  local owner, wrong = lockAt(KEYS[1], ttl)
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
