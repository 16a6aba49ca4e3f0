-- slots: reads which slots of a semaphore are taken. It writes nothing. Its reply is a hint: whether a
-- slot is free is for acquire to decide, on as many nodes as the quorum size.
--
-- KEYS  the hash of each slot
-- ARGV  1 channel of the semaphore
--
-- Replies with {slots, remaining ms, waiting}: slots has a digit for each slot, 1 if it is taken, else
-- 0; the remaining time is the least of the slots that are taken, or -1 if none of them expires;
-- waiting subscribe to the channel.

local digits, least = {}, -1
for i = 1, #KEYS do
  local ttl = redis.call('PTTL', KEYS[i])
  digits[i] = ttl == -2 and '0' or '1'
  if ttl >= 0 and (least < 0 or ttl < least) then
    least = ttl
  end
end
return {table.concat(digits), least, redis.pcall('PUBSUB', 'NUMSUB', ARGV[1])[2] or 0}
