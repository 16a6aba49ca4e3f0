-- counters: reads token counters. It writes nothing.
--
-- ARGV  1 what the counters' keys begin with, 2 the number of the first, 3 how many. They are no KEYS: the
--       keys of all counters are 2 MB.
--
-- Replies with the place, from 1 on, and the text of each counter that exists. A key of another type
-- counts as missing, as in renew.

local keys = {}
for i = 1, tonumber(ARGV[3]) do
  keys[i] = ARGV[1] .. string.format('%d', ARGV[2] + i - 1)
end
local read = redis.call('MGET', unpack(keys))
local found = {}
for i = 1, #keys do
  if read[i] then
    found[#found + 1] = i
    found[#found + 1] = string.sub(read[i], 1, 64)
  end
end
return found
