-- usual: precedes acquire. An argument takes a server as long as a tenth of the script, and so does what a script
-- defines. So the request of a fresh owner of one name at depth 1 has three arguments, and is granted here in the usual
-- case: the node accepts the client and was admitted long ago; there is no tombstone and no key at the name; the counter
-- is a number below the seed. In any other case acquire goes on, with all its arguments.
--
-- KEYS  as acquire's
-- ARGV  1 lease in ms, 2 seed, above 1, 3 the first line of the marker of a node that accepts this client
--
-- Replies with 1 for a grant whose token is the seed, or as acquire.

local ARGV, owner, read, ttl = ARGV, string.sub(KEYS[2], #KEYS[1] + ownerAt), nil, nil
if #ARGV == 3 then
  local lease, seed, expected, key = ARGV[1], ARGV[2], ARGV[3], KEYS[4]
  read = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
  local marker, counter = read[1], read[3]
  -- Numbers of one length have the order of their texts.
  local isBelow = counter and #counter == #seed and counter < seed and not string.find(counter, '%D')
  if isBelow and marker and string.sub(marker, 1, #expected) == expected and not read[2] then
    ttl = redis.call('PTTL', key)
  end
  if ttl == -2 then
    redis.call('HSET', key, owner, '1')
    local wrote = redis.pcall('PEXPIRE', key, lease)
    if type(wrote) == 'table' then -- the user may not: no lock without a lease
      redis.pcall('HDEL', key, owner)
      wrote.err = wrote.err .. ' (PEXPIRE)'
      return wrote
    end
    redis.call('SET', KEYS[3], seed)
    return 1
  end
  ARGV = {'1', lease, '0', seed, expected}
end

