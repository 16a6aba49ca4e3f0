-- ask: asks whoever listens at some names to let go. It reads and writes no key.
--
-- ARGV  1 whom it asks (scripts.Ask), then the channel of each name
--
-- Replies with 1.

for i = 2, #ARGV do
  redis.call('PUBLISH', ARGV[i], ARGV[1])
end
return 1
