-- inspect: reads a node's state of one name. It writes nothing.
--
-- KEYS  1 the node's marker, 2 the name's hash, 3 its token counter
--
-- Replies with {owner, level, remaining ms, token counter, marker's run, quarantine left in ms}. A
-- missing string is empty, a missing number 0; the remaining time is -1 for a key without one. A
-- key that is no lock is an error. So is a text that is too long for a lock: the client bounds its
-- replies, and would drop the connection.

local YEAR = 31536000000 -- in ms: the bound of a max lease, and so of a quarantine
local owner, level, ttl = '', '', call('PTTL', KEYS[2])
if ttl == -2 then
  ttl = 0
else
  owner, level = lockAt(KEYS[2])
  if not owner then
    return level -- the error
  end
end
local marker = call('HMGET', KEYS[1], 'run', 'admitted')
local time = call('TIME')
local left = (tonumber(marker[2] or '') or math.huge) - (time[1] * 1000 + math.floor(time[2] / 1000))
local run = marker[1]
if not (left <= YEAR) then
  run, left = '', 0 -- a marker without a valid time counts as none
end
local counter = call('GET', KEYS[3]) or ''
if #owner + #level + #counter + #(run or '') > 4096 then
  return redis.error_reply('QUORUMLOCK what is at the name is too long: it is not a lock')
end
return {owner, level, ttl, counter, run or '', math.max(left, 0)}
