-- look: reads the node's marker. It writes nothing.
--
-- KEYS  1 the marker, 2 the marker that clients without lists of masters keep
-- ARGV  1 the process: run, max lease and name (scripts.ConnArgs)
--
-- Replies with {marker, now in ms, process, the older marker's run, admitted and max}. What is missing
-- is ''. A text that is too long for a marker is an error: the client bounds its replies.

local marker = redis.call('GET', KEYS[1]) or ''
if #marker > 65536 then
  return redis.error_reply('QUORUMLOCK the marker is too long')
end
local time = redis.call('TIME')
local older = {}
if marker == '' then
  older = redis.call('HMGET', KEYS[2], 'run', 'admitted', 'max')
end
local function short(text)
  return string.sub(text or '', 1, 128)
end
return {marker, time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1], short(older[1]), short(older[2]), short(older[3])}
