-- who: reads which processes lockers belong to. It writes nothing.
--
-- KEYS  the lockers' keys
--
-- Replies with a text for each (scripts.Identity). It is empty if the key is missing or too long to be
-- one: the client bounds its replies.

local found = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  local text = found[i]
  found[i] = text and #text <= 4096 and text or ''
end
return found
