-- raise: writes a fencing token back to the counters, while the owner holds every name.
--
-- KEYS  for each name: its key, a lock's hash or the readers, and its token counter
-- ARGV  1 owner, or readerPrefix and the owner of a reader, 2 token
--
-- If the owner holds every name, no counter is below the token afterwards, and the reply is the
-- highest of them. Otherwise it replies with 0 and writes nothing. A key that is neither a hash nor a sorted
-- set is an error. A counter may be above the token for two reasons: a neighbour, a name that shares the
-- counter, has raised it; or a resent request was granted again, after another owner, so that the owner
-- holds by a later grant than the client has read.

local owner, find, findOther, now = ARGV[1], 'HEXISTS', 'ZSCORE', 0
if string.sub(owner, 1, #readerPrefix) == readerPrefix then
  local time = redis.call('TIME')
  find, findOther, now = 'ZSCORE', 'HEXISTS', time[1] * 1000 + math.floor(time[2] / 1000)
end
for i = 1, #KEYS, 2 do
  local found = redis.pcall(find, KEYS[i], owner)
  if type(found) == 'table' then
    -- Readers are where the owner wrote, or a writer is where it read: another has the name.
    if not string.find(found.err, 'WRONGTYPE', 1, true) then
      found.err = found.err .. ' (' .. find .. ')'
    elseif type(redis.pcall(findOther, KEYS[i], owner)) ~= 'table' then
      return 0
    end
    return found
  end
  if not found or found == 0 or tonumber(found) < now then
    return 0
  end
end
local token = tonumber(ARGV[2])
local highest = token
for i = 2, #KEYS, 2 do
  local counter = tonumber(redis.call('GET', KEYS[i]) or '-1')
  if not counter or counter ~= counter then
    return redis.error_reply(ofCounter .. KEYS[i] .. isNoNumber)
  end
  if counter >= 4503599627370496 then
    return redis.error_reply(ofCounter .. KEYS[i] .. isTooHigh)
  end
  if counter < token then
    redis.call('SET', KEYS[i], ARGV[2])
  elseif counter > highest then
    highest = counter
  end
end
return highest
