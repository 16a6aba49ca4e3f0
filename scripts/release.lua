-- release: releases a lock by its owner, or lowers its level.
--
-- KEYS  1 the owner's tombstone, then the key of each name: a lock's hash, or the readers; then, of a writer
--       that has waited for readers and gives up, the reservation of each name
-- ARGV  1 owner, or readerPrefix and the owner of a reader, 2 the level to leave (0 releases, whatever
--       the level was), then the channel of each name, last the tombstone's time to live in ms (0 for no
--       tombstone).
--       A writer that releases one name, without a tombstone, sends KEYS 1 the key, and ARGV 1 owner, 2 channel
--
-- Replies with one of
--   the number of names at which the owner was found
--   {that number, heard}    that many connections, at least one, received the message of a name; -1 if
--                           the user may not publish one: the waiters poll
--
-- It publishes once for each name that became free, also when its last reader leaves; heard is the largest
-- number of receivers. Readers that a reservation has kept back get the message when it is deleted; another
-- owner's stays. It must work when the server is out of memory: a delete always does, while a level
-- or a tombstone may not be written. A key of another type holds no lock, unless a reader's user may not
-- look there. Any other refusal of a release is an error, but only after the remaining names.

if #ARGV == 2 then -- each argument takes a server as long as a tenth of the script; a lock has one field: the key is gone
  local reply = redis.pcall('HDEL', KEYS[1], ARGV[1])
  if reply == 1 then
    local heard = redis.pcall('PUBLISH', ARGV[2], '0')
    return heard == 0 and 1 or {1, type(heard) == 'table' and -1 or heard}
  end
  if reply == 0 or string.find(reply.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  reply.err = reply.err .. ' (HDEL)'
  return reply
end

local owner, level, found, heard, failure = ARGV[1], ARGV[2], 0, 0, nil
local isReader = string.sub(owner, 1, #readerPrefix) == readerPrefix
local holder = isReader and string.sub(owner, #readerPrefix + 1) or owner

local names = #ARGV - 3
for i = 2, 1 + names do
  local key, reply, command = KEYS[i], nil, level == '0' and 'ZREM' or 'ZSCORE'
  if isReader then
    reply = redis.pcall(command, key, owner)
    if level ~= '0' and type(reply) ~= 'table' then
      reply = reply and 1 or 0
    end
  end
  if not isReader or type(reply) == 'table' then -- a node that has missed the downgrade has the hash
    local ofHash = level == '0' and 'HDEL' or 'HEXISTS'
    local hash = redis.pcall(ofHash, key, holder)
    if not reply or type(hash) ~= 'table' or not string.find(hash.err, 'WRONGTYPE', 1, true) then
      reply, command = hash, ofHash
    end
  elseif level == '0' and reply == 1 and redis.call('EXISTS', key) == 1 then
    local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    local time = redis.call('TIME')
    if tonumber(last[2]) < time[1] * 1000 + math.floor(time[2] / 1000) then
      for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do -- the leases of all that are left are over
        if string.sub(member, 1, #readerPrefix) == readerPrefix then
          redis.call('ZREM', key, member)
        end
      end
    end
  end
  if reply == 1 then
    found = found + 1
    if level ~= '0' then
      if not isReader then redis.pcall('HSET', key, owner, level) end
    elseif redis.call('EXISTS', key) == 0 then
      local published = redis.pcall('PUBLISH', ARGV[i + 1], '0')
      if type(published) == 'table' then
        heard = -1
      elseif heard >= 0 and published > heard then
        heard = published
      end
    end
  elseif reply ~= 0 and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    reply.err = reply.err .. ' (' .. command .. ')'
    failure = reply
  end
end
for i = 2 + names, #KEYS do
  if redis.pcall('GET', KEYS[i]) == owner and redis.pcall('DEL', KEYS[i]) == 1 then
    redis.pcall('PUBLISH', ARGV[i + 1 - names], '0')
  end
end
if ARGV[#ARGV] ~= '0' then
  redis.pcall('SET', KEYS[1], '1', 'PX', ARGV[#ARGV])
end
return failure or heard ~= 0 and {found, heard} or found
