-- release: lets go of a lock, by owner, or lowers its level.
--
-- KEYS  1 the owner's tombstone, then the hash of each name
-- ARGV  1 owner, 2 level to leave (0 lets go, whatever the level was), then the channel of each name,
--       last the tombstone's time to live in ms (0 for none)
--
-- Replies with the number of names at which the owner was found. Publishes once for each name that became free.
-- It must work when the server is out of memory: deleting always does, writing a level or a tombstone only if it can.

local owner, found = ARGV[1], 0
for i = 2, #KEYS do
  if ARGV[2] == '0' then
    if redis.pcall('HDEL', KEYS[i], owner) == 1 then
      found = found + 1
      if redis.call('EXISTS', KEYS[i]) == 0 then
        redis.call('PUBLISH', ARGV[i + 1], '0')
      end
    end
  elseif redis.pcall('HEXISTS', KEYS[i], owner) == 1 then
    found = found + 1
    redis.pcall('HSET', KEYS[i], owner, ARGV[2])
  end
end
if ARGV[#ARGV] ~= '0' then
  redis.pcall('SET', KEYS[1], '1', 'PX', ARGV[#ARGV])
end
return found
