-- inspect: reads a node's state of one name. It writes nothing.
--
-- KEYS  1 the node's marker, 2 the name's key: a lock's hash, or the readers, 3 its token counter, which
--       other names share, 4 the reservation of a writer that waits for the readers
--
-- Replies with {owner, level, remaining ms, token counter, marker, now in ms, readers, remaining ms of the
-- reservation}. Readers are counted, and have no owner here; the remaining time is the last one's. A
-- missing string is empty; the remaining time is 0 for no key, -1 for a key that never expires. These are
-- errors: a key that is no lock; a counter that is no number, or above every token; and a marker that is
-- too long, because the client bounds its replies and would drop the connection.

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local owner, level, ttl, readers, ends = '', '', call('PTTL', KEYS[2]), 0, nil
if ttl == -2 then
  ttl = 0
else
  owner, level, ends = lockAt(KEYS[2])
  if not owner then
    return level -- the error
  end
end
if ends then
  owner, ttl = '', math.max(ends - now, 0)
  readers = call('ZCOUNT', KEYS[2], string.format('%.0f', now), '+inf')
end
local marker = call('GET', KEYS[1]) or ''
local counter = redis.pcall('GET', KEYS[3]) -- an error is no number
if counter then
  local number = tonumber(counter)
  if not number or number ~= number then
    return redis.error_reply(ofCounter .. KEYS[3] .. isNoNumber)
  end
  if number >= 4503599627370496 then
    return redis.error_reply(ofCounter .. KEYS[3] .. isTooHigh)
  end
  counter = string.format('%.0f', math.max(number, 0))
end
if #marker > 65536 then
  return redis.error_reply('QUORUMLOCK the marker is too long')
end
return {owner, level, ttl, counter or '', marker, now, readers, math.max(call('PTTL', KEYS[4]), 0)}
