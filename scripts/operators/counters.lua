-- counters: reads token counters. It writes nothing.
--
-- KEYS  the counters
--
-- Replies with the place, from 1 on, and the text of each counter that exists. A key of another type
-- counts as missing, as in renew.

local read = redis.call('MGET', unpack(KEYS))
local found = {}
for i = 1, #KEYS do
  if read[i] then
    found[#found + 1] = i
    found[#found + 1] = string.sub(read[i], 1, 64)
  end
end
return found
