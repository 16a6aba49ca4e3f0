-- admit: keeps the node's marker: which process this is, and from when on it may grant. It writes
-- only what changes.
--
-- KEYS  1 the node's marker
-- ARGV  1 max lease in ms, 2 quarantine in ms of a process that the marker does not name (0 for none),
--       3 '1' on the operator's word: admitted at once, whatever the marker says, 4 the run (scripts.MarkerRun)
--
-- Replies with the quarantine left in ms, or with {'maxlease', ms} when the marker carries another
-- max lease.

local marker = redis.call('HMGET', KEYS[1], 'run', 'admitted', 'max')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local max, quarantine, run = ARGV[1], tonumber(ARGV[2]), ARGV[4]

local admitted = tonumber(marker[2] or '')
if ARGV[3] == '1' then
  admitted = now
elseif marker[3] and marker[3] ~= max then
  return {'maxlease', tonumber(marker[3]) or 0}
elseif marker[1] ~= run or not admitted or admitted ~= admitted then
  admitted = now + quarantine
elseif admitted > now + quarantine then
  admitted = now + quarantine -- the server's clock stepped back, or this client wants no quarantine
end

if marker[1] ~= run or marker[3] ~= max or tonumber(marker[2] or '') ~= admitted then
  redis.call('HSET', KEYS[1], 'run', run, 'max', max, 'admitted', string.format('%.0f', admitted))
end
return math.max(admitted - now, 0)
