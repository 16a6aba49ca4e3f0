-- lift: raises token counters that are lower than their tokens. Nobody needs to hold a name: a counter
-- may always rise, and no attempt takes this for the write-back of its own token (raise.lua).
--
-- KEYS  the counters
-- ARGV  the token of each
--
-- Replies with how many it has raised.

local raised = 0
for i = 1, #KEYS do
  local counter = tonumber(redis.call('GET', KEYS[i]) or '-1')
  if not counter or counter ~= counter then
    return redis.error_reply('QUORUMLOCK the token counter "' .. KEYS[i] .. '" is not a number')
  end
  if counter < tonumber(ARGV[i]) then
    redis.call('SET', KEYS[i], ARGV[i])
    raised = raised + 1
  end
end
return raised
