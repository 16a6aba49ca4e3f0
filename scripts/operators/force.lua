-- force: deletes a lock for an operator, whoever holds it.
--
-- KEYS  1 the name's key: a lock's hash, or the readers, 2 the token counter,
--       3 the bar of a forced release, then the tombstones of the owners to bar from new grants (a
--       repair, a late request)
-- ARGV  1 the name's channel, 2 the time to live of the tombstones and the bar in ms, 3 the highest
--       token counter of all nodes if there are readers, else 0
--
-- Replies with 1 if a lock was deleted, and with 0 if there was no key. A key that is no lock is an
-- error, and stays.
--
-- There may be many readers, so the bar takes the place of their tombstones. It is a token: read.lua
-- refuses repairs and re-entries of readers whose token is not above it. Later readers are above it,
-- because the counter is raised with it.

local ttl = call('PTTL', KEYS[1])
if ttl ~= -2 then
  local owner, wrong = lockAt(KEYS[1])
  if not owner then
    return wrong
  end
end
if ARGV[3] ~= '0' then
  local counter = redis.pcall('GET', KEYS[2]) or '0'
  counter = tonumber(counter) -- what is no counter stays: nobody reads here
  if counter and counter == counter and (counter >= tonumber(ARGV[3]) or not redis.pcall('SET', KEYS[2], ARGV[3]).err) then
    redis.pcall('SET', KEYS[3], ARGV[3], 'PX', ARGV[2])
  end
end
for i = 4, #KEYS do
  redis.pcall('SET', KEYS[i], '1', 'PX', ARGV[2])
end
if ttl == -2 then
  return 0
end
call('DEL', KEYS[1])
redis.pcall('PUBLISH', ARGV[1], '0') -- the user may lack the channel: waiters poll
return 1
