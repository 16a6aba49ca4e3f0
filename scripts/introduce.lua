-- introduce: writes which process a locker belongs to, for a while. It is for people to read.
--
-- KEYS  1 the locker's key
-- ARGV  1 the identity (scripts.Identity), 2 its time to live in ms
--
-- Replies with 1.

redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
