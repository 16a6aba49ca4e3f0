-- release: releases a lock by its owner, or lowers its level.
--
-- KEYS  1 the owner's tombstone, then the hash of each name
-- ARGV  1 owner, 2 the level to leave (0 releases, whatever the level was), then the channel of
--       each name, last the tombstone's time to live in ms (0 for no tombstone)
--
-- Replies with one of
--   the number of names at which the owner was found
--   {that number, heard}    that many connections, at least one, received the message of a name
--
-- It publishes once for each name that became free; heard is the largest number of receivers. It must
-- work when the server is out of memory: a delete always does, while a level or a tombstone may not
-- be written. A key of another type holds no lock. Any other refusal is an error, but only after the
-- remaining names.

local owner, level, found, heard, failure = ARGV[1], ARGV[2], 0, 0, nil

for i = 2, #KEYS do
  local reply = redis.pcall(level == '0' and 'HDEL' or 'HEXISTS', KEYS[i], owner)
  if reply == 1 then
    found = found + 1
    if level ~= '0' then
      redis.pcall('HSET', KEYS[i], owner, level)
    elseif redis.call('EXISTS', KEYS[i]) == 0 then
      local published = redis.pcall('PUBLISH', ARGV[i + 1], '0')
      if type(published) == 'table' then
        failure = published
      elseif published > heard then
        heard = published
      end
    end
  elseif reply ~= 0 and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    failure = reply
  end
end
if ARGV[#ARGV] ~= '0' then
  redis.pcall('SET', KEYS[1], '1', 'PX', ARGV[#ARGV])
end
return failure or heard > 0 and {found, heard} or found
