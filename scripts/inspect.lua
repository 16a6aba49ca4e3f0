-- inspect: what a node knows of one name. Writes nothing.
--
-- KEYS  1 the node's marker, 2 the name's hash, 3 its token counter
--
-- Replies with {owner, level, remaining ms, token counter, marker's run id, quarantine left in ms}; strings are empty
-- and numbers 0 where there is nothing, the remaining time is -1 for a key without one. What is too long for a lock's is an error: a
-- client bounds its replies, and would take one above that for a broken connection.

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
local left = (tonumber(marker[2] or '0') or 0) - (time[1] * 1000 + math.floor(time[2] / 1000))
local counter, run = redis.call('GET', KEYS[3]) or '', marker[1] or ''
if #owner + #level + #counter + #run > 4096 then
  return redis.error_reply('QUORUMLOCK what is at the name is too long: it is not a lock')
end
return {owner, level, ttl, counter, run, math.max(left, 0)}
