-- raise: writes a fencing token back to the counters, while the owner holds every name.
--
-- KEYS  for each name: its hash, its token counter
-- ARGV  1 owner, 2 token
--
-- Replies with the highest of the counters, none of which is below the token any more, when the
-- owner holds every name. Else it replies with 0, and has written nothing. A counter may be above
-- the token: a neighbour, a name that shares it, has raised it, or the owner holds by a later grant
-- than the client has read, which a resent request got after another owner.

for i = 1, #KEYS, 2 do
  if redis.call('HEXISTS', KEYS[i], ARGV[1]) == 0 then
    return 0
  end
end
local token = tonumber(ARGV[2])
local highest = token
for i = 2, #KEYS, 2 do
  local counter = tonumber(redis.call('GET', KEYS[i]) or '-1')
  if not counter or counter ~= counter then
    return redis.error_reply('QUORUMLOCK the token counter "' .. KEYS[i] .. '" is not a number')
  end
  if counter >= 4503599627370496 then
    return redis.error_reply('QUORUMLOCK the token counter "' .. KEYS[i] ..
      '" has reached 2^52: no lock counts that far. Delete the key on this master')
  end
  if counter < token then
    redis.call('SET', KEYS[i], ARGV[2])
  elseif counter > highest then
    highest = counter
  end
end
return highest
