-- look: reads the node's marker. It writes nothing.
--
-- KEYS  1 the marker
-- ARGV  1 the process: run, max lease and name (scripts.ConnArgs)
--
-- Replies with {marker or '', now in ms, process}. A text that is too long for a marker is an error: the
-- client bounds its replies.

local marker = redis.call('GET', KEYS[1]) or ''
if #marker > 65536 then
  return redis.error_reply('QUORUMLOCK the marker is too long')
end
local time = redis.call('TIME')
return {marker, time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1]}
