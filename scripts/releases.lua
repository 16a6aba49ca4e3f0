-- releases: releases many locks of one name each by their owners. One run of it serves releases that
-- are sent together and need no tombstone.
--
-- KEYS  the hash of each name
-- ARGV  for each name: owner, channel
--
-- Replies with 1 if every owner was found and nobody has heard. Otherwise it replies for each name as
-- release does: the number of names at which the owner was found, {1, heard}, or an error.
--
-- It doesn't check that the key is gone before it publishes: a lock has one field.

local pcall, keys, args = redis.pcall, KEYS, ARGV
local replies, usual = {}, true
for i = 1, #keys do
  local reply = pcall('HDEL', keys[i], args[2 * i - 1])
  if reply == 1 then
    local heard = pcall('PUBLISH', args[2 * i], '0')
    if heard ~= 0 then
      reply, usual = {1, type(heard) == 'table' and -1 or heard}, false
    end
  else
    usual = false
    if reply ~= 0 and string.find(reply.err, 'WRONGTYPE', 1, true) then
      reply = 0 -- a key of another type holds no lock
    elseif reply ~= 0 then
      reply.err = reply.err .. ' (HDEL)'
    end
  end
  replies[i] = reply
end
return usual and 1 or replies
