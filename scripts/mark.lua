-- mark: writes the node's marker, if it is still the one that the client has read.
--
-- KEYS  1 the marker
-- ARGV  1 the marker that was read, '' for none, 2 admitted: 'at' or 'in' ms, 3 that number,
--       4 the digest of the members and the generation, 5 the next change: 'at' or 'in' ms,
--       6 that number, 7 the lines of the members and of the next ones, 8 the last instant, in ms,
--       at which the marker may be written, 9 the process that was seen: run, max lease and name,
--       10 the process at the connection's other end (scripts.ConnArgs)
--
-- Replies with {1, the marker written, now in ms}, or with {0, the marker that is there or '', now
-- in ms}. A mark that arrives late is not written: the other masters may have changed since its client
-- looked at them. Nor is one that reaches another process: a process that has loaded its predecessor's
-- data needs a quarantine of its own.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local marker = redis.call('GET', KEYS[1]) or ''
if marker ~= ARGV[1] or ARGV[9] ~= ARGV[10] or now > tonumber(ARGV[8]) then
  return {0, string.sub(marker, 1, 65536), now}
end
local function instant(kind, number)
  if kind == 'at' then
    return number
  end
  return string.format('%.0f', now + tonumber(number))
end
local admitted, change = instant(ARGV[2], ARGV[3]), instant(ARGV[5], ARGV[6])
marker = admitted .. ' ' .. ARGV[10] .. ' ' .. ARGV[4] .. ' ' .. change .. '\n' .. ARGV[7]
redis.call('SET', KEYS[1], marker)
return {1, marker, now}
