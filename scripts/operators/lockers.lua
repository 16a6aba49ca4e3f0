-- lockers: finds which processes have locked lately, in bounded time. It writes nothing, and is for an
-- operator's eyes: clients that lock neither load nor send it.
--
-- ARGV  1 the pattern of the lockers' keys, 2 the cursor of SCAN, 3 how many keys SCAN may look at
--
-- Replies with {the next cursor, {key, text (scripts.Identity), time to live in ms, ...}}. What is too
-- long to be an identity is left out: the client bounds its replies.

local found = redis.call('SCAN', ARGV[2], 'MATCH', ARGV[1], 'COUNT', ARGV[3])
local lockers = {}
for _, key in ipairs(found[2]) do
  local text = redis.call('MGET', key)[1] -- a key of another type has none
  if text and #text <= 4096 and #key <= 512 and #lockers < 3000 then
    lockers[#lockers + 1] = key
    lockers[#lockers + 1] = text
    lockers[#lockers + 1] = redis.call('PTTL', key)
  end
end
return {found[1], lockers}
