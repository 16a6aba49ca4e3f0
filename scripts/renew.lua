-- renew: raises the time to live of many locks, each only where its owner is still in the hash. A
-- key without a time to live (PERSIST) outlives any lease, and stays so.
--
-- KEYS  for each name: its hash, its token counter
-- ARGV  1 time to live of the counters in ms, then for each name: owner, token, lease in ms
--
-- Replies with one letter for each name: R renewed, G gone (no key), T taken (another owner, or a
-- key of another type). It writes as little as possible, because it must work when the server is
-- out of memory. One bad key does not stop the others. What this user may not run is an error.

local out = {}
for i = 1, #KEYS, 2 do
  local j = 2 + (i - 1) / 2 * 3
  local owner, token, lease = ARGV[j], tonumber(ARGV[j + 1]), tonumber(ARGV[j + 2])
  local found = redis.pcall('HEXISTS', KEYS[i], owner)
  if found == 1 then
    local ttl = redis.call('PTTL', KEYS[i])
    if ttl ~= -1 and ttl < lease then
      redis.call('PEXPIRE', KEYS[i], ARGV[j + 2])
    end
    local counter = redis.pcall('GET', KEYS[i + 1])
    if counter == false or (type(counter) == 'string' and (tonumber(counter) or token) < token) then
      redis.pcall('SET', KEYS[i + 1], ARGV[j + 1], 'PX', ARGV[1])
    else
      redis.call('PEXPIRE', KEYS[i + 1], ARGV[1])
    end
    out[#out + 1] = 'R'
  elseif found == 0 and redis.call('EXISTS', KEYS[i]) == 0 then
    out[#out + 1] = 'G'
  elseif found == 0 or string.find(found.err, 'WRONGTYPE', 1, true) then
    out[#out + 1] = 'T'
  else
    return found -- the server refuses the command: that says nothing of the lock
  end
end
return table.concat(out)
