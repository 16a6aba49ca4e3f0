-- survey: finds names of locks, in bounded time. It writes nothing, and is for an operator's eyes: clients
-- that lock neither load nor send it.
--
-- ARGV  1 the pattern of the locks' channels, 2 the pattern of the token counters, 3 the cursor of SCAN,
--       4 how many keys SCAN may look at, 5 the most channels to name
--
-- Replies with {the next cursor, {counter, ...}, {channel, subscribers, ...}}: counters of names that
-- were locked within a day, and the channels with the most subscribers, where the user may ask.

local found = redis.call('SCAN', ARGV[3], 'MATCH', ARGV[2], 'COUNT', ARGV[4])
local channels = redis.pcall('PUBSUB', 'CHANNELS', ARGV[1])
local counts = {}
for i = 1, channels.err and 0 or #channels do
  local count = redis.call('PUBSUB', 'NUMSUB', channels[i])
  counts[i] = {channels[i], count[2]}
end
table.sort(counts, function(a, b) return a[2] > b[2] end)
local most = {}
for i = 1, math.min(#counts, tonumber(ARGV[5])) do
  most[#most + 1] = string.sub(counts[i][1], 1, 2048)
  most[#most + 1] = counts[i][2]
end
local counters = {}
for i = 1, math.min(#found[2], 1000) do
  if #found[2][i] <= 512 then
    counters[#counters + 1] = found[2][i]
  end
end
return {found[1], counters, most}
