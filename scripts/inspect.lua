-- inspect: what a node knows of one name. Writes nothing.
--
-- KEYS  1 the node's marker, 2 the name's hash, 3 its token counter
--
-- Replies with {owner, level, remaining ms, token counter, marker's run id, quarantine left in ms}; strings are empty
-- and numbers 0 where there is nothing, the remaining time is -1 for a key without one.

local YEAR = 31536000000 -- in ms: the longest max lease, and so the longest quarantine, that there can be
local owner, level, ttl = '', '', 0
local size = redis.call('HLEN', KEYS[2])
if size > 1 then
  return redis.error_reply('QUORUMLOCK the hash holds ' .. size .. ' fields: it is not a lock')
end
if size == 1 then
  local field = redis.call('HGETALL', KEYS[2])
  owner, level, ttl = field[1], field[2], redis.call('PTTL', KEYS[2])
end
local marker = redis.call('HMGET', KEYS[1], 'run', 'admitted')
local time = redis.call('TIME')
local left = (tonumber(marker[2] or '') or math.huge) - (time[1] * 1000 + math.floor(time[2] / 1000))
local run = marker[1]
if not (left <= YEAR) then
  run, left = '', 0 -- a marker that does not tell from when on the node may grant is none
end
return {owner, level, ttl, redis.call('GET', KEYS[3]) or '', run or '', math.max(left, 0)}
